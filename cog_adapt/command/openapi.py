"""`python -m cog_adapt.command.openapi`: the name by which Makefiles of older projects call it."""

from cog_adapt.server.command.openapi import main

if __name__ == "__main__":
    main()
