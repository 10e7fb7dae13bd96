"""Walks through deployments, and writes what was found beside what is known of the others.

    python -m bench.deployments server servers ray --output docs/results/deployments.json

Ray runs in a network namespace with loopback alone, so it comes last. `docker` and `compose` need
Docker on the PATH and an image (`--image`); variables of Compose, such as COMPOSE_FILE with more
files and POSTGRES_IMAGE, are kept.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.deployments.alone import OneServer, Servers
from bench.deployments.page import failed, page
from bench.deployments.walk import Deployment, Walk
from bench.panels import draw_all
from bench.process_group import end_on_signals

NAMES = ("server", "servers", "docker", "compose", "ray")


def deployment_of(name: str, folder: Path, image: str) -> Deployment:
    """Return a deployment that is not started."""
    if name == "ray":
        from bench.deployments.under_ray import UnderRay  # makes its environment, and a network

        return UnderRay()
    if name in ("docker", "compose"):
        from bench.deployments.containers import Compose, Docker
        from bench.image import docker

        docker("version")  # an engine answers before anything is started
        return Docker(image) if name == "docker" else Compose(image, folder=folder)
    return OneServer(folder) if name == "server" else Servers(folder)


def write(name: str, walk: Walk, output: Path) -> None:
    """Write what a walk found beside the others, the page, and the picture of its panels."""
    walks = json.loads(output.read_text()) if output.exists() else {}
    walks[name] = walk.found
    output.write_text(json.dumps(walks, indent=1) + "\n")
    output.with_suffix(".md").write_text(page(walks))
    draw_all(walk.panels, output.parents[1] / "images" / f"dashboard-{name}.png")


def main() -> None:
    """Walk through the deployments; exit with 1 if a step does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", choices=NAMES)
    parser.add_argument("--image", default="cog-adapt", help="of `docker` and `compose`")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the load")
    parser.add_argument("--output", type=Path, help="write the findings here, and a page beside")
    chosen = parser.parse_args()
    end_on_signals()
    faults = []
    for name in sorted(chosen.names, key=NAMES.index):
        with tempfile.TemporaryDirectory() as folder:
            deployment = deployment_of(name, Path(folder), chosen.image)
            walk = Walk(deployment, Path(folder), chosen.seconds)
            walk.go()
        print(name, json.dumps(walk.found, indent=1))
        if chosen.output:
            write(name, walk, chosen.output)
        faults += [f"{name}: {step}: no" for step in failed(walk.found)]
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
