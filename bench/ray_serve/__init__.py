"""The server under Ray Serve beside plain Ray Serve, and from nothing to the first answer."""
