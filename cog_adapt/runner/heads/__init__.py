"""Heads on features by linear algebra alone: closed forms, folds, calibration, the decision."""
