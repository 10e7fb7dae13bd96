"""A CUDA device made of host memory, for tests where there is no card; see README.md.

    python -m pytest -p tests.standin.plugin -m gpu    # tests
    python -m tests.standin bench.gpu --help           # any module

It is no card: what ran on it was not tested on a GPU.
"""

NAME = "stand-in (host memory, no card)"
VERSION = "0.stand-in"
