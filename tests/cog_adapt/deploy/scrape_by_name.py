"""Prometheus as the monitoring overlay starts it, and a server with keys, in their own network.

    unshare --net --mount python -m tests.cog_adapt.deploy.scrape_by_name FOLDER

A name server answers as that of a cluster does: for the whole name alone. FOLDER gets `found.json`.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

from bench.deployments.watching import running, until
from cog_adapt.server.middleware.keys import make_key
from tests.cog_adapt.deploy.operators import program
from tests.cog_adapt.deploy.stack import PROMETHEUS, START_SECONDS
from tests.cog_adapt.deploy.test_kustomize import files_of, overlay, pods

DOMAIN = "ns.svc.cluster.local"
NAME = b"".join(
    bytes([len(part)]) + part.encode() for part in f"cog-adapt-servers.{DOMAIN}.".split(".")
)
ADDRESS = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1"  # the name's: A, IN, 1 s, 127.0.0.1
A_RECORD = b"\0\1"


def answer(question: bytes) -> bytes:
    """The answer of a name server that knows one name."""
    end = question.index(b"\0", 12) + 1
    is_known = question[12:end] == NAME and question[end : end + 2] == A_RECORD
    flags, count = (b"\x85\x80", b"\0\1") if is_known else (b"\x85\x83", b"\0\0")
    header = question[:2] + flags + b"\0\1" + count + b"\0\0\0\0"
    return header + question[12 : end + 4] + (ADDRESS if is_known else b"")


def serve_names() -> None:
    """Answer until the process ends."""
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 53))
    while True:
        question, asker = names.recvfrom(4096)
        names.sendto(answer(question), asker)


def main(folder: Path) -> None:
    """Run both until the server is seen, and write what was found."""
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver 127.0.0.1\nsearch {DOMAIN}\noptions ndots:5\n")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "--bind", resolver, Path("/etc/resolv.conf").resolve()], check=True)
    threading.Thread(target=serve_names, daemon=True).start()
    key, line = make_key("prometheus", ["predict"])
    (folder / "keys").write_text(line)
    (folder / "metrics-key").write_text(f"{key}\n")
    places = {"/run/secrets/cog-adapt": str(folder), "/etc/prometheus": str(folder)}
    places["=/prometheus"] = f"={folder}/series"

    def placed(text: str) -> str:
        for there, here in places.items():
            text = text.replace(there, here)
        return text

    for name, text in files_of("prometheus").items():
        (folder / name).write_text(placed(text))
    containers = [pod["containers"][0] for pod in pods(overlay("monitoring"))]
    (flags,) = [each["args"] for each in containers if each["name"] == "prometheus"]
    server = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    data = {"DATA_DIR": str(folder / "records"), "WEIGHTS_DIR": str(folder / "weights")}
    with (
        running("server", server, folder, API_KEYS_FILE=str(folder / "keys"), **data),
        running("prometheus", [program("prometheus"), *map(placed, flags)], folder),
    ):
        asked = partial(PROMETHEUS.query, "query", query="cog_build_info")
        seen = until(asked, START_SECONDS, "not seen")
    (folder / "found.json").write_text(json.dumps(seen[0]["metric"]))


if __name__ == "__main__":
    main(Path(os.path.abspath(sys.argv[1])))
