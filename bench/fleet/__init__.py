"""Simulates a fleet of servers with many adapters, and checks the small end against one server.

tiers.py       one server's tiers of adapters, each a cache of the longest unused
popularity.py  how often each adapter is asked for, and which of them a warm tier holds
placement.py   which server a request goes to: random, hash, warm first
simulation.py  requests by time: waits, tiers, bytes moved
figures.py     the times: committed results by file and name, and what `measured.py` finds
measured.py    small measurements of this machine: reading, decoding, commits
check.py       one real server beside its simulation
limits.py      what saturates first, and what a million adaptations cost
report.py      the tables of `docs/results/fleet.md`
"""
