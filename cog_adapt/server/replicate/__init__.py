"""Replicate's HTTP API below `/v1`, for its official clients; another form of the same service."""
