"""What documents have to say, word for word: clients are generated from them."""

import json
from pathlib import Path
from typing import Any


def read_golden(name: str) -> Any:
    """The text of `NAME.json`, decoded."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())
