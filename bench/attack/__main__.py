"""Walks hostile values through every input, field, header and path, and times a second caller."""

from bench.attack.walk import main

main()
