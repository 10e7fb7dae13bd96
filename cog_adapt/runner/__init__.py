"""The model runner: inference and adaptation of one model in one process; knows no transport."""

import os

# Read when torch is first imported, which only modules below do: threads that wait sleep, because
# threads that spin take the cores of the next process (`threads.py`).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
