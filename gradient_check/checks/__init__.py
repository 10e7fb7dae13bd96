"""The checks: each is a function that judges one thing; `check.py` calls them in report order.

A check is a module whose one function reads what the checks before it have left, and adds findings.
No check imports another (a contract in `pyproject.toml`); what several need, or a part of one that
is long, is a module below them. State that outlives one call has three owners:

    flow.py        the gradients of one step
    operation.py   the base, from the first inference to the last check
    slopes.py      the comparisons of gradients with the slopes of the loss
"""
