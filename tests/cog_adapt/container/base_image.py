"""Stands in for what a build downloads, where neither Docker Hub nor PyTorch's index is reachable.

The base is Debian with this machine's CPython, under the name that the Dockerfile uses, so that
the Dockerfile itself is what users get. The certificates and pip's timeout of this machine are
in it for the same reason.
"""

import contextlib
import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.cog_adapt.container.engine import Engine, MissingError, unpack

ROOT = Path(__file__).parent.parent.parent.parent
RELEASE = "bookworm"
LIBRARIES = (
    *("ca-certificates", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libncursesw6"),
    *("libreadline8", "libsqlite3-0", "libssl3", "libuuid1", "zlib1g"),
)
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
PIP = f"[global]\ncert = /{CERTIFICATES}\ndefault-timeout = 180\n"
LEFT_OUT = ("site-packages/*", "test", "__pycache__", "config-*", "pkgconfig")


def base_name() -> str:
    """What the Dockerfile builds on."""
    found = re.search(r"^ARG BASE=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found, "the Dockerfile names no base"
    return found[1]


def import_base(engine: Engine, folder: Path) -> None:
    """Make the base image, and give it to the engine.

    Raises:
        MissingError: another Python runs here than the base is named for.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if base_name() != f"python:{version}-slim":
        raise MissingError(f"Python {version} cannot stand in for {base_name()}")
    tree = folder / "base"
    _install_debian(folder, tree)
    _install_python(tree, f"python{version}")
    with subprocess.Popen(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE) as archive:
        engine.docker("import", "-", base_name(), stdin=archive.stdout)
    shutil.rmtree(tree)


def _install_debian(folder: Path, tree: Path) -> None:
    unpack(folder, "mmdebstrap")
    program: list[str | Path] = [
        "perl",
        folder / "usr" / "bin" / "mmdebstrap",
        "--quiet",
        "--variant=minbase",
    ]
    options: list[str | Path] = [
        f"--include={','.join(LIBRARIES)}",
        "--format=directory",
        RELEASE,
        tree,
    ]
    subprocess.run([*program, *options], check=True, capture_output=True)
    shutil.copy(Path("/") / CERTIFICATES, tree / CERTIFICATES)
    # As in the real base: apt keeps no archives in the layer of a RUN.
    (tree / "etc/apt/apt.conf.d/docker-clean").write_text(
        'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";\n'
        'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };\n'
    )


def _install_python(tree: Path, name: str) -> None:
    excluded = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    source = ["tar", "-C", sys.base_prefix, *excluded, "-c", f"bin/{name}", "lib"]
    with subprocess.Popen(source, stdout=subprocess.PIPE) as archive:
        target: list[str | Path] = ["tar", "-C", tree / "usr" / "local", "-x"]
        subprocess.run(target, stdin=archive.stdout, check=True)
    (tree / "etc/pip.conf").write_text(PIP)
    setup = (
        f"ldconfig && cd /usr/local/bin && ln -s {name} python3 && ln -s python3 python"
        " && python -m ensurepip && ln -s pip3 pip"
    )
    subprocess.run(["chroot", tree, "sh", "-c", setup], check=True, capture_output=True)


@contextlib.contextmanager
def wheel_index(folder: Path) -> Iterator[str]:
    """An index with PyTorch's wheel for CPUs, in place of download.pytorch.org; its address."""
    pin = re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pin, "requirements.txt does not pin torch"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", pin[0]]
    subprocess.run([*pip, "--dest", folder / "torch"], check=True, capture_output=True)
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        """Say nothing."""
