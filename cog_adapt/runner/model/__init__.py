"""The loaded model: its base, its adaptations and its predictions, tick by tick."""
