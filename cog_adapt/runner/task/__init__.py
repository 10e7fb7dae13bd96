"""What a model's owner writes, `Task`, and how its hooks are called within their bounds."""
