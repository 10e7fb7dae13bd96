"""A model server whose prediction requests may carry training examples."""
