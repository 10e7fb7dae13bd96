"""`check_gradients` beside the usual tools, on the same planted faults and healthy models."""
