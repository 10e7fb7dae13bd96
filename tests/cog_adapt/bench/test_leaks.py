"""A server keeps nothing of requests that are over: the short form of `make leaks`."""

import pytest

from bench.leaks import Sizes, leaks, measure

ROW = {
    "after": "x",
    "descriptors": 50,
    "threads": 9,
    "memory MB": 900.0,
    "front's last third": 0.0,
    "worker's last third": -1.0,
    "others's last third": 0.0,
    "adapters MB": 1.0,
    "records MB": 1.0,
    "checkpoints": 0,
    "temporary files": 0,
}


def test_a_server_keeps_nothing_of_what_is_over():
    rows = measure(Sizes(predictions=20, cancels=20, adaptations=5, warm=5))
    assert [row["after"] for row in rows] == [
        "warm-up",
        "20 predictions",
        "20 cancels",
        "5 adaptations",
    ]
    assert rows[0]["descriptors"] > 10
    assert rows[0]["memory MB"] > 100
    assert rows[0]["records MB"] > 0
    found = [each for each in leaks(rows) if "last third" not in each]  # no cache is full yet
    assert found == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"descriptors": 59}, ["descriptors: 59 after x"]),
        ({"descriptors": 58}, []),
        ({"memory MB": 1051.0}, ["memory: 1051 MB after x"]),
        ({"records MB": 51.0}, ["records: 51.0 MB after x"]),
        ({"front's last third": 1.1}, ["front: +1.1 MB in the last third of x"]),
        ({"worker's last third": 8.1}, ["worker: +8.1 MB in the last third of x"]),
        ({"others's last third": 1.1}, ["others: +1.1 MB in the last third of x"]),
        ({"worker's last third": 8.0}, []),
        ({"adapters MB": 151.0}, ["adapters: 151.0 MB after x"]),
        ({"checkpoints": 1}, ["files are left after x"]),
        ({"temporary files": 1}, ["files are left after x"]),
    ],
)
def test_what_grows_is_named(change, words):
    assert leaks([ROW, ROW | change]) == words
