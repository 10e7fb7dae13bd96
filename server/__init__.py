"""A mirror of Cog's HTTP server: `python -m server` serves any Cog predictor."""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def _import_ours(name: str) -> None:
    """Import the package beside this one; the user's folder may have one of the same name."""
    spec = PathFinder.find_spec(name, [str(Path(__file__).resolve().parents[1])])
    if name in sys.modules or spec is None or spec.loader is None:
        return
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


_import_ours("runner")
