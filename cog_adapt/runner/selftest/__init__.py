"""The gradient self-test of a task, which a process must pass before it serves."""
