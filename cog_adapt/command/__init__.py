"""The command line, above runner and server: `cog-adapt`, and what `python -m server` runs once."""
