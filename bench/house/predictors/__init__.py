"""Predictors that a snapshot serves."""
