"""Runs a module on the stand-in: `python -m tests.standin MODULE [ARGUMENTS]`."""

import runpy
import sys

from tests.standin.errors import StandInError
from tests.standin.load import load


def main() -> None:
    """Load the device, then run the module with the rest of the arguments."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        load()
    except StandInError as error:
        sys.exit(f"there is no stand-in: {error}")
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
