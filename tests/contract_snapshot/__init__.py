"""The contract: what callers, operators and importers see of the project, one fact a line.

`python -m tests.contract_snapshot` writes `data/`, and `test_contract_snapshot.py` compares it with
the tree. A line changes only with a decision; none has what differs from run to run (times, ids).
"""
