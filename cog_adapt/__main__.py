"""`python -m cog_adapt`: the command `cog-adapt`."""

from cog_adapt.command.main import main

if __name__ == "__main__":  # a model process imports this module too, under another name
    main()
