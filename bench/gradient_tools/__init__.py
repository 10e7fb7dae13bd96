"""`check_gradients` beside what people use today, on the same planted faults and healthy models."""
