"""Pages of adapters, and the one that a name means."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cog_adapt.adapter_rule import Asker
from cog_adapt.server.errors import InputError
from cog_adapt.server.records.adapter_pages import AdapterQuery
from tests.cog_adapt.server.records.test_adapters import ADA, ADMIN, BOB, described, play

FOUND = [
    described("a1", name="support", version=1, recipe={"method": "lora"}, labels=["no", "yes\0"]),
    described("a2", name="support", version=2, recipe={"method": "head"}, labels=["no", "no"]),
    described("a10", name="support", version=10, shared=["bob"], recipe={"method": "lora"}),
    described("b1", owner="bob", name="support", version=1, labels=["no", 5]),
    described("c1", owner="carol", shared=["*"], labels=["no", "ö" * 3000]),
    described("d1", owner="dave", name="a1"),
    described("a1", owner="erin", shared=["bob", "ada"]),
]


def filled(home, scene):
    async def story(index):
        encoded = msgspec.json.encode(
            [
                each | {"created_at": f"2026-11-22T10:00:0{number}+00:00"}
                for number, each in enumerate(FOUND)
            ]
        )
        await index.write_list(encoded, datetime.now(UTC), 0)
        await scene(index)

    play(home, story)


def places(page):
    found = [msgspec.json.decode(each) for each in page.adapters]
    return [f"{each['owner']}/{each['id']}" for each in found]


@pytest.mark.parametrize(
    ("asker", "query", "found"),
    [
        (ADA, {}, "erin/a1 carol/c1 ada/a10 ada/a2 ada/a1"),
        (ADA, {"shared": False}, "ada/a10 ada/a2 ada/a1"),
        (ADA, {"shared": True}, "erin/a1 carol/c1"),
        (ADA, {"method": "lora"}, "ada/a10 ada/a1"),
        (BOB, {"name": "support"}, "bob/b1 ada/a10"),
        (BOB, {"owner": "ada"}, "ada/a10"),
        (BOB, {"owner": "dave"}, ""),
        (ADMIN, {"owner": "dave"}, "dave/d1"),
        (ADMIN, {"name": "support", "method": "head"}, "ada/a2"),
        (ADA, {"label": "no"}, "carol/c1 ada/a2 ada/a1"),
        (ADA, {"label": "no", "shared": False, "method": "head"}, "ada/a2"),
        (BOB, {"label": "no"}, "carol/c1 bob/b1"),
        (ADA, {"label": "ö" * 3000}, "carol/c1"),
        (ADA, {"label": "n"}, ""),
        (ADA, {"label": "\ud800"}, ""),
        (ADMIN, {"label": "no"}, "carol/c1 bob/b1 ada/a2 ada/a1"),
    ],
)
def test_a_page_has_what_is_asked_for_newest_first(home, asker, query, found):
    async def scene(index):
        assert places(await index.page(asker, AdapterQuery.of(9, None, **query))) == found.split()

    filled(home, scene)


def test_each_page_goes_on_where_the_one_before_ended(home):
    async def scene(index):
        found: list[Any] = []
        cursor = None
        for _ in range(4):
            page = await index.page(ADMIN, AdapterQuery.of(2, cursor))
            found, cursor = found + places(page), page.next_cursor
        assert found == [f"{each['owner']}/{each['id']}" for each in reversed(FOUND)]
        assert cursor is None

    filled(home, scene)


@pytest.mark.parametrize(
    ("asker", "reference", "owner", "found"),
    [
        (ADA, "support", None, "ada/a10"),
        (ADA, "support@v2", None, "ada/a2"),
        (ADA, "support@v3", None, None),
        (ADA, "support@v99999999999", None, None),
        (ADA, "a1", None, "ada/a1"),
        (ADA, "a1", "erin", "erin/a1"),
        (BOB, "a1", None, "erin/a1"),
        (BOB, "support", None, "bob/b1"),
        (BOB, "support", "ada", "ada/a10"),
        (BOB, "support@v2", "ada", None),
        (BOB, "a10", None, "ada/a10"),
        (Asker("dave"), "a1", None, "dave/d1"),
        (Asker("eve"), "a1", None, None),
        (Asker("eve"), "c1", None, "carol/c1"),
        (ADMIN, "b1", None, "bob/b1"),
        (ADA, "sup\0port", None, None),
    ],
)
def test_the_one_that_is_meant(home, asker, reference, owner, found):
    async def scene(index):
        one = await index.find(asker, reference, owner)
        shown = one and msgspec.json.decode(one)
        assert (shown and f"{shown['owner']}/{shown['id']}") == found

    filled(home, scene)


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"cursor": None, "name": "a\0"}])
def test_what_no_page_can_be_of_is_refused(query):
    with pytest.raises(InputError, match="leave it out"):
        AdapterQuery.of(9, **query)
