"""The door to the HTTP server: `python -m server`."""
