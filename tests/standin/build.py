"""Compiles the device, once for each torch and each state of its sources."""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.standin.errors import StandInError

SOURCES = Path(__file__).parent / "source"
BUILT = Path(__file__).parent / "built"
COMPILER = "g++"
# -w: the warnings are about torch's headers. -O1: its kernels only hand over to those of the CPU.
_FLAGS = ("-shared", "-fPIC", "-std=c++20", "-O1", "-w")
_SECONDS = 600


def library() -> Path:
    """Return the compiled device; compile it if these sources never were (half a minute).

    Raises:
        StandInError: there is no compiler or no torch for the CPU, or the sources do not compile.
    """
    torch = _torch()
    path = BUILT / f"libstandin-{_fingerprint()}.so"
    if not path.exists():
        BUILT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            made = Path(folder) / path.name
            compile_extension(torch, made)
            os.replace(made, path)  # whole or not there: another process may look for it now
    return path


def _torch() -> Path:
    """Return the folder of the installed torch, without an import of it."""
    if "+cpu" not in importlib.metadata.version("torch"):
        raise StandInError(
            f"torch {importlib.metadata.version('torch')} is no build for the CPU alone, whose "
            "CUDA the stand-in would stand beside. Use a card, or install torch's CPU build."
        )
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise StandInError("torch is not installed. Run `make setup`.")
    return Path(found.origin).parent


def _fingerprint() -> str:
    digest = hashlib.sha256(importlib.metadata.version("torch").encode())
    digest.update(f"{sys.implementation.cache_tag} {_FLAGS}".encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def compile_extension(torch: Path, made: Path) -> None:
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise StandInError(f"{COMPILER} is not on the PATH. Install a C++ compiler (Debian: g++).")
    include, lib = torch / "include", torch / "lib"
    command = [compiler, *_FLAGS, f"-I{include}", f"-I{include}/torch/csrc/api/include"]
    command += [str(SOURCES / "standin.cpp"), "-o", str(made), f"-L{lib}"]
    command += ["-ltorch_cpu", "-lc10", f"-Wl,-rpath,{lib}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise StandInError(f"the device does not compile with this torch: {done.stderr[:2000]}")
