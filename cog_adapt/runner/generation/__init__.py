"""Answers that grow a token at a time, in ticks, with others in one forward."""
