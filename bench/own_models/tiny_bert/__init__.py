"""Texts: the shipped task and door with a model in a local folder."""
