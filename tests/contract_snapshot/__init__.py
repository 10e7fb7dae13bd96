"""The contract: what callers, operators and importers see of the project, one fact a line.

`python -m tests.contract_snapshot` writes `data/`; `tests/cog_adapt/test_contract_snapshot.py`
compares it with the tree. Whatever is private may move freely; a line of `data/` changes only
with a decision. No line holds what differs from run to run: versions, times, ids, paths.
"""
