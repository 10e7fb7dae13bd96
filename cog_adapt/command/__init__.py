"""The command line, above runner and server: `cog-adapt` and the commands of the server."""

USAGE_ERROR = 2
"""The exit code after a wrong flag or value."""
