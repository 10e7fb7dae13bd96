"""A head on features, by algebra alone: closed forms, folds, calibration, the decision."""
