"""The model that is loaded: its base, its adaptations and its predictions, tick by tick."""
