"""The tests of the gradient check, with the faulty and healthy models that they ask about."""
