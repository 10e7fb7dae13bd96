"""`Task`, the class that a model's owner writes, and the bounded calls of its hooks."""
