"""What one request does, from its values to its answer; and a training, a replay."""
