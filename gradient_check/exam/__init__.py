"""An examination of `check_gradients`: faults and healthy models that its own tests do not hold."""
