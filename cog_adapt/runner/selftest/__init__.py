"""The gradient self-test of a task: the gate that a process passes before it serves."""
