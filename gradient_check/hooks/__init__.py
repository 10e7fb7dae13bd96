"""The check inside pytest, Lightning and the `Trainer` of transformers."""
