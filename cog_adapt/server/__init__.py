"""A mirror of Cog's HTTP server, for any Cog predictor; imports neither torch nor the runner."""
