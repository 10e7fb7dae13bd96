"""Renew all locks: `make lock`, which takes the newest versions that the pins allow.

`requirements.lock` has the hashes of what a project installs, a kind's own below one line, as in
`requirements.txt`; `pylock.toml` is CI's environment. PyTorch and the CUDA libraries that it
brings are in neither: the build depends on the platform.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cog_adapt.command.kinds import TEXT, kinds

ROOT = Path(__file__).parents[2]
OWN = "# The kind's own.\n"
HEAD = """\
# Hashes of what requirements.txt names and brings; `make lock` of cog-adapt's repository writes it.
# PyTorch is not here, since its builds differ by platform. A line that is added to
# requirements.txt needs none here.
"""
OF_PLATFORM = re.compile(r"(torch|triton|cuda-.*|nvidia-.*)")
LINK = re.compile(r"^ +# +(?:via )?(\S+)$", re.MULTILINE)


def main() -> None:
    """Write the locks."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = compiled(Path(folder))
        pins = Path(folder) / "pins.txt"
        pins.write_text("".join(f"{block.split(maxsplit=1)[0]}\n" for block in blocks.values()))
        environment = locked(Path(folder), pins)
    (ROOT / "pylock.toml").write_text(environment)
    of_every_kind, own = (ROOT / "requirements.txt").read_text().split(OWN)
    base = brought(named(of_every_kind), blocks)
    for kind in kinds():
        source = ROOT / "examples" / kind / "requirements.txt"
        text = own if kind == TEXT else source.read_text() if source.exists() else ""
        part = hashes(brought(named(text), blocks) - base, blocks)
        if kind == TEXT:
            (ROOT / "requirements.lock").write_text(HEAD + hashes(base, blocks) + OWN + part)
        elif part:
            source.with_suffix(".lock").write_text(part)


def compiled(folder: Path) -> dict[str, str]:
    """Return pip-compile's lines of each package of any kind, by name."""
    sources = [ROOT / "requirements.txt", *sorted(ROOT.glob("examples/*/requirements.txt"))]
    flags = ("--quiet", "--generate-hashes", "--no-header", "--strip-extras", "--allow-unsafe")
    run("piptools", "compile", *flags, "--output-file", folder / "all.lock", *sources)
    found = re.findall(r"^\S+==.*\n(?:^ .*\n)*", (folder / "all.lock").read_text(), re.MULTILINE)
    return {block.partition("==")[0]: block for block in found if not is_of_platform(block)}


def locked(folder: Path, pins: Path) -> str:
    """Return pip's lock of requirements-dev.txt for this Python and platform."""
    file = folder / "pylock.toml"
    run("pip", "lock", "-q", "-r", ROOT / "requirements-dev.txt", "-c", pins, "-o", file)
    head, *packages = re.split(r"(?=^\[\[packages\]\]$)", file.read_text(), flags=re.MULTILINE)
    return head + "".join(each for each in packages if not is_of_platform(each.split('"')[1]))


def is_of_platform(block: str) -> bool:
    """Return whether a package, by its name or lines, is PyTorch or comes with it for CUDA."""
    return bool(OF_PLATFORM.fullmatch(block.partition("==")[0]))


def named(requirements: str) -> set[str]:
    """Return the names of the packages that a file's lines require."""
    return {each.lower() for each in re.findall(r"^[\w.-]+", requirements, re.MULTILINE)}


def brought(names: set[str], blocks: Mapping[str, str]) -> set[str]:
    """Return the names of packages with all that they require."""
    parents = {name: {*LINK.findall(block)} for name, block in blocks.items()}
    while more := {name for name in parents if parents[name] & names} - names:
        names = names | more
    return names & blocks.keys()


def hashes(names: set[str], blocks: Mapping[str, str]) -> str:
    """Return the lines of packages without what requires them."""
    return "".join(re.sub(r"^ +#.*\n", "", blocks[n], flags=re.MULTILINE) for n in sorted(names))


def run(*module: str | Path) -> None:
    """Run a module with the public index alone, whatever this machine's pip is set to."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith("PIP_") or n == "PIP_CERT"}
    environment = {**kept, "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([sys.executable, "-m", *module], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()
