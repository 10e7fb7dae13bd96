"""The command line, above runner and server: `cog-adapt`, and what `python -m server` runs once."""

USAGE_ERROR = 2
"""The exit code after a wrong flag or value."""
