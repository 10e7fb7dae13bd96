"""A mirror of Cog's HTTP server, for any Cog predictor; knows no torch and no runner."""
