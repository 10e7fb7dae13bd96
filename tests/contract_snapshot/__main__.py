"""Writes the contract of this tree: `python -m tests.contract_snapshot`."""

import sys

from tests.contract_snapshot.snapshot import DATA, facts_of_tree, write

write(facts_of_tree(), DATA)
sys.stdout.write(f"{DATA} has the contract of this tree; `git diff` shows what changed.\n")
