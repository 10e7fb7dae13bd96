"""The model runner: inference and adaptation of one model in one process; knows no transport."""
