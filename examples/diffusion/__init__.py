"""Pictures: a flow-matching transformer draws letters in the style of a few that are given."""
