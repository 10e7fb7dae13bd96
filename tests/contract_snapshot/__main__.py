"""Writes the contract of this tree; `git diff` then shows what changed."""

from tests.contract_snapshot.snapshot import DATA, facts_of_tree, write

write(facts_of_tree(), DATA)
