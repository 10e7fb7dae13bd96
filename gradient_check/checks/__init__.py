"""The checks: functions that each judge one property; `check.py` calls them in report order.

A check is a module with one function, which reads the results of earlier checks and adds findings.
No check imports another (a contract in `pyproject.toml`); code of several checks, or a part of a
long check, is a module below them. State that outlives one call has three owners:

    flow.py        the gradients of one step
    operation.py   the base, from the first inference to the last check
    slopes.py      the comparisons of gradients with the slopes of the loss
"""
