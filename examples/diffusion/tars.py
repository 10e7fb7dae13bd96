"""The `.tar` of Replicate's trainers: `lora.safetensors` in a folder of it."""

import io
import tarfile
from pathlib import Path
from tempfile import mkdtemp

from cog_adapt import InputError

MOST_BYTES = 256 * 2**20
_MOST_MEMBERS = 1_000
_NAME, _FOLDER = "lora.safetensors", "output"


def packed(content: bytes) -> Path:
    """Return a `.tar` with an adapter's file."""
    path = Path(mkdtemp()) / "trained_model.tar"
    member = tarfile.TarInfo(f"{_FOLDER}/{_NAME}")
    member.size = len(content)
    with tarfile.open(path, "w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return path


def unpacked(weights: Path) -> Path:
    """Return the adapter's file of a `.tar`; a file of another kind as it is.

    Raises:
        InputError: the `.tar` has no such file, is broken, or the file is too large.
    """
    if not tarfile.is_tarfile(weights):
        return weights
    path = Path(mkdtemp()) / _NAME
    try:
        with tarfile.open(weights, "r:") as archive:
            path.write_bytes(_content(archive))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"the .tar cannot be read: {error}. Send it again.") from error
    return path


def _content(archive: tarfile.TarFile) -> bytes:
    for number, member in enumerate(archive):
        if number == _MOST_MEMBERS:
            break
        if not member.isfile() or Path(member.name).name != _NAME:
            continue
        if member.size > MOST_BYTES:
            raise InputError(
                f"{_NAME} in the .tar has {member.size:,} bytes; the limit is {MOST_BYTES:,}."
            )
        file = archive.extractfile(member)
        return file.read() if file else b""
    raise InputError(f"the .tar has no {_NAME}. Send the one that `train` returns.")
