"""`python -m server`: Cog's HTTP server, or one of the commands for people."""

import sys

COMMANDS = ("predict", "train", "openapi", "key")

if __name__ == "__main__":  # a model process imports this module too, under another name
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        from server.command.app import app

        app()
    else:
        from server.serving import serve

        serve(sys.argv[1:])
