"""ZIP files made by hand: what `zipfile` would not write is patched into what it has written."""

import io
import json
import zipfile

from cog_adapt.runner.storage.peft_format import CONFIG

LORA = json.dumps({"peft_type": "LORA"})
ENTRY, END = b"PK\x01\x02", b"PK\x05\x06"


def packed(*members, method=zipfile.ZIP_STORED):
    """Return a ZIP file of (name, content) pairs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def patched(content, mark, offset, value, size=4, which=0):
    """Write a number at an offset after the `which`th place of a mark."""
    changed, place = bytearray(content), -1
    for _ in range(which + 1):
        place = content.index(mark, place + 1)
    changed[place + offset : place + offset + size] = value.to_bytes(size, "little")
    return bytes(changed)


def bomb(name, method, declared, blocks):
    """Return a ZIP file of PEFT's two whose one member has so many MiB, and declares other bytes.

    It is packed block by block, so that to make it takes no memory.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        with archive.open(name, "w") as member:
            for _ in range(blocks):
                member.write(bytes(2**20))
        archive.writestr(CONFIG, LORA)
    return patched(file.getvalue(), ENTRY, 24, declared)
