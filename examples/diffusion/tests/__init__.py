"""The tests of the model and its doors."""
