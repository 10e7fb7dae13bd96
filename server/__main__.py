"""`python -m server`: Cog's HTTP server, or one of the commands for people."""

import sys
from pathlib import Path

COMMANDS = ("predict", "train", "openapi", "key", "adapters")

if __name__ == "__main__":  # a worker imports this module too, under another name
    if Path(sys.path[0]) == Path.cwd() != Path(__file__).resolve().parents[1]:
        del sys.path[0]  # the user's folder: its modules are for the worker alone
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        from cog_adapt import run

        run(sys.argv[1:])
    else:
        from cog_adapt import serve
        from server.app import build

        serve(sys.argv[1:], build)
