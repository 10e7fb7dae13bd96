"""Texts: the shipped task and predictor with a model in a local folder."""
