"""The command line, above runner and server: `cog-adapt` and what joins the two."""

USAGE_ERROR = 2
"""The exit code after a wrong flag or value."""
