"""Which tests one process runs as a whole, and which come first."""

import pytest

from tests.cog_adapt import scheduling
from tests.cog_adapt.scheduling import unit_of

CONTRACT = "tests/cog_adapt/contract"


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        (f"{CONTRACT}/test_cancel.py::test_a[mirror-x]", f"{CONTRACT}/mirror"),
        (f"{CONTRACT}/test_health.py::test_b[mirror]", f"{CONTRACT}/mirror"),
        (f"{CONTRACT}/test_health.py::test_b[mirror-strict-1]", f"{CONTRACT}/mirror-strict"),
        (f"{CONTRACT}/test_differences.py::test_c", f"{CONTRACT}/test_differences.py"),
        ("tests/cog_adapt/replicate/test_traps.py::test_d", "tests/cog_adapt/replicate/"),
        ("tests/cog_adapt/client/test_runs.py::test_f", "tests/cog_adapt/client/"),
        ("tests/cog_adapt/test_streams.py::test_e[mirror]", "tests/cog_adapt/test_streams.py"),
    ],
)
def test_tests_that_share_servers_are_one_unit(test, unit):
    assert unit_of(test) == unit


class Item:
    """A test as pytest has collected it."""

    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_shared_servers_come_first_then_files_of_few_tests():
    many, few = (f"tests/cog_adapt/test_{name}.py" for name in ("quick", "slow"))
    found = [f"{many}::test_a", f"{many}::test_b", f"{few}::test_c"]
    found += [f"{scheduling.KINDS}::test_{number}" for number in range(5)]
    found += [f"{CONTRACT}/test_health.py::test_{number}[mirror]" for number in range(5)]
    items = [Item(each) for each in found]
    scheduling.pytest_collection_modifyitems(items)
    assert [each.nodeid for each in items] == [*found[8:], *found[3:8], found[2], *found[:2]]
