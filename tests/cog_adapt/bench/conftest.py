"""What measures the shipped task can only be tested where it is."""

import importlib.util

collect_ignore = (
    []
    if importlib.util.find_spec("task")
    else [
        *("test_adaptation_steps.py", "test_quality.py", "test_quality_contestants.py"),
        *("test_quality_goals.py", "test_quality_others.py", "test_neighbours.py"),
    ]
)
