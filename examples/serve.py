"""Starts the server, and prints a link to open and three requests to paste, for `make serve`."""

import os
import sys

PORT = os.environ.get("PORT", "5000")
IS_STRICT = os.environ.get("STRICT_COG", "").lower() not in ("", "0", "false")  # has no playground
LINK = f"http://localhost:{PORT}/playground"
LOOK = "" if IS_STRICT else f"open {LINK} in a browser, or "
HOST = ("--host", "127.0.0.1")  # no keys are set: for this machine alone
REQUESTS = f"""\
Once the server is ready (curl -s localhost:{PORT}/readyz), {LOOK}paste:

curl -s localhost:{PORT}/predictions -H 'Content-Type: application/json' \\
  -d '{{"input": {{"text": "Where is my parcel?", "labels": ["shipping", "billing"]}}}}'

python3 -c 'import json; print(json.dumps({{"input": {{"text": "Where is my parcel?",
  "examples": open("examples/tickets.jsonl").read()}}}}))' |
  curl -sN localhost:{PORT}/predictions -H 'Content-Type: application/json' \\
  -H 'Accept: text/event-stream' -d @-

curl -s 'localhost:{PORT}/predictions?limit=2'
"""


def main() -> None:
    """Print the requests, and replace this process by the server."""
    print(REQUESTS, file=sys.stderr, flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "server", *HOST, *sys.argv[1:]])


if __name__ == "__main__":
    main()
