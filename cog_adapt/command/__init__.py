"""The command line for people: `python -m server predict | train | openapi | key`."""
