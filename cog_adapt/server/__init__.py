"""A mirror of Cog's HTTP server: `python -m server` serves any Cog predictor."""
