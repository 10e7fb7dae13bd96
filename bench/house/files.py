"""Lists the files that a server leaves behind."""

import re
from pathlib import Path

_ID = re.compile(r"(?:[0-9a-f]{2}(?=/)|[A-Za-z0-9_-]{20,}|[0-9a-f]{12,})")


def names_in(folder: Path) -> str:
    """List the names below a folder, without ids and digests; `× N` counts equal ones."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = [_ID.sub("<id>", str(path.relative_to(folder))) for path in files]
    return "".join(f"{name} × {names.count(name)}\n" for name in sorted(set(names)))
