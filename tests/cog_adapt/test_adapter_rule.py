"""One table: who means which adapter by a reference, and who may use it.

It is run against the rule, predictions, HTTP and the command line; docs/adapters.md tells it.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest

from cog_adapt.adapter_rule import OPERATOR, Asker, SeveralOwners, choose, may_use, parse_reference
from cog_adapt.command.stored_adapters import StoredAdapters
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.modules.adapters import load_adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.find_adapter import find_adapter
from cog_adapt.runner.storage.catalog import Adapters
from cog_adapt.runner.storage.metadata import describe
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.server.errors import InputError as UsageError
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import ADMIN_KEY, OWNER_KEY, Run
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.storage.made import adapter_of
from tests.cog_adapt.server.api.keeping import keep, read
from tests.cog_adapt.server.api.site import Site
from tests.cog_adapt.waiting import until

PAST = "2000-01-01T00:00:00.000000+00:00"
SEVERAL = "several"

# label: owner, number of its content, name, version, shared with, expired
ADAPTERS = {
    "amy1": ("amy", 1, "support", 1, (), False),
    "amy2": ("amy", 2, "support", 2, (), False),
    "amy3": ("amy", 3, "support", 3, (), True),
    "bob1": ("bob", 4, "support", 1, ("amy", "carol"), False),
    "dan1": ("dan", 5, "support", 1, ("*",), False),
    "bob2": ("bob", 6, "pair", 1, ("carol",), False),
    "bob3": ("bob", 7, "pair", 2, (), False),
    "bob4": ("bob", 8, "late", 1, ("*",), True),
    "bob5": ("bob", 9, "twin", 1, ("carol",), False),
    "dan2": ("dan", 9, "twin", 1, ("carol",), False),
    "old1": ("", 10, "old", 1, (), False),
    "old2": ("", 11, "open", 1, ("*",), False),
    "old3": ("", 12, "support", 1, (), False),
    "root1": ("root", 13, "pair", 1, (), False),
}
NO_KEYS = Asker()
AMY, BOB, CAROL, EVE = (Asker(name) for name in ("amy", "bob", "carol", "eve"))
ROOT = Asker("root", sees_all=True)

# asker, reference (a label in <> stands for its id), the label that is meant, SEVERAL or None
TABLE = [
    # own before shared, the latest version of a name, none that is expired
    (AMY, "support", "amy2"),
    (AMY, "support@v1", "amy1"),
    (AMY, "support@v2", "amy2"),
    (AMY, "support@v3", None),
    (AMY, "<amy3>", None),
    (BOB, "support", "bob1"),
    (BOB, "pair", "bob3"),
    (BOB, "late", None),
    # others' only where they are shared, by id or name
    (AMY, "<amy1>", "amy1"),
    (AMY, "<bob1>", "bob1"),
    (AMY, "<bob3>", None),
    (AMY, "pair", None),
    (AMY, "late", None),
    (CAROL, "pair", "bob2"),
    (CAROL, "pair@v2", None),
    (EVE, "support", "dan1"),
    (EVE, "<bob1>", None),
    (EVE, "<bob4>", None),
    # several sharers of a name are refused; of an id they have the same content
    (CAROL, "support", SEVERAL),
    (CAROL, "support@v1", SEVERAL),
    (CAROL, "support@v2", None),
    (CAROL, "<dan1>", "dan1"),
    (CAROL, "twin", SEVERAL),
    (CAROL, "<dan2>", "bob5"),
    (EVE, "<dan2>", None),
    # what nobody owns: everybody's without keys, then an admin's, unless it is shared
    (NO_KEYS, "old", "old1"),
    (NO_KEYS, "<old1>", "old1"),
    (NO_KEYS, "support", "old3"),
    (NO_KEYS, "<amy1>", None),
    (NO_KEYS, "<dan1>", "dan1"),
    (AMY, "old", None),
    (AMY, "<old1>", None),
    (AMY, "open", "old2"),
    (EVE, "<old2>", "old2"),
    (ROOT, "old", "old1"),
    (ROOT, "<old1>", "old1"),
    # an admin: own first, and of all others' again no guess
    (ROOT, "pair", "root1"),
    (ROOT, "pair@v2", "bob3"),
    (ROOT, "support", SEVERAL),
    (ROOT, "support@v2", "amy2"),
    (ROOT, "<bob3>", "bob3"),
    (ROOT, "late", None),
    # what no adapter can be called
    *(
        (asker, text, None)
        for asker in (NO_KEYS, AMY, ROOT)
        for text in ("none", "0" * 16, "support@v0", "support@1", "@v1", "../x")
    ),
]
LABELS = {(owner, adapter_of(number).id): label for label, (owner, number, *_) in ADAPTERS.items()}


def spelled(reference):
    """Put ids in the place of labels."""
    return LABELS_TO_IDS.get(reference, reference)


LABELS_TO_IDS = {f"<{label}>": adapter_id for (_, adapter_id), label in LABELS.items()}


def fill(store):
    """Put all adapters of the table into a store; the expired ones are so from now on."""
    for owner, number, *_ in ADAPTERS.values():
        store.put(adapter_of(number), owner)
    for owner, number, name, version, shared, is_expired in ADAPTERS.values():
        said = {"name": name, "version": version, "shared": shared}
        said["expires_at"] = PAST if is_expired else None
        store.change(
            adapter_of(number).id, owner, lambda known, _, said=said: replace(known, **said)
        )


def row_name(row):
    asker, reference, meant = row
    return f"{asker.owner or 'no keys'} {reference} {meant}"


over_the_table = pytest.mark.parametrize(
    ("asker", "reference", "meant"), TABLE, ids=map(row_name, TABLE)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = AdapterStore(tmp_path_factory.mktemp("table") / "adapters")
    fill(store)
    return store


@over_the_table
def test_the_rule(store, asker, reference, meant):
    text = spelled(reference)
    all_of_them = [store.known(key, owner) for owner, key in LABELS if not expired(owner, key)]
    try:
        found = choose(all_of_them, parse_reference(text), asker)
    except SeveralOwners:
        assert meant == SEVERAL
    else:
        assert (found and LABELS[found.owner, found.id]) == meant


def expired(owner, adapter_id):
    return ADAPTERS[LABELS[owner, adapter_id]][-1]


@over_the_table
def test_a_prediction_that_names_one(store, asker, reference, meant):
    request = Request(adapter=spelled(reference))
    if meant == SEVERAL:
        with pytest.raises(InputError, match=r"is of several owners: .*Name one by its id"):
            find_adapter(request, store, asker, read=load_adapter)
    elif meant is None:
        with pytest.raises(AdapterNotFound, match="is not known here"):
            find_adapter(request, store, asker, read=load_adapter)
    else:
        found = find_adapter(request, store, asker, read=load_adapter)
        assert found is not None
        assert found.id == adapter_of(ADAPTERS[meant][1]).id


def key_of(asker):
    if asker == NO_KEYS:
        return None
    scopes = frozenset({"admin"} if asker.sees_all else {"predict"})
    return Key(asker.owner, scopes, asker.owner)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a server's routes answer for each row: status and label; and each asker's list."""
    store = AdapterStore(tmp_path_factory.mktemp("served") / "adapters")
    offered = Adapters(store, lambda adapter: adapter, None, lambda *_: None)  # type: ignore[arg-type]
    found: dict[Any, Any] = {}

    async def story():
        site = Site(tmp_path_factory.mktemp("site"))
        await site.harness.records.register()
        keep(site, offered)
        askers = {asker: key_of(asker) for asker, *_ in TABLE}
        for key in askers.values():  # each is met: who is met for the first time tidies the folder
            await site.ask("GET", "/adapters", key=key)
        await asyncio.to_thread(fill, store)
        for asker, reference, _ in TABLE:
            path = f"/adapters/{quote(spelled(reference), safe='')}"
            found[asker, reference] = await site.ask("GET", path, key=askers[asker])
        for asker, key in askers.items():
            found[asker] = await site.ask("GET", "/adapters", key=key)
        found["twin"] = await site.ask("DELETE", f"/adapters/{spelled('<dan2>')}", key=askers[ROOT])
        await site.app.state.parts.adapters.settle()
        await site.harness.webhooks.close()
        await site.harness.records.close()

    asyncio.run(asyncio.wait_for(story(), 60))
    return found


@over_the_table
def test_a_route_that_names_one(answers, asker, reference, meant):
    answer = answers[asker, reference]
    if meant == SEVERAL:
        assert (answer.status, "is of several owners: " in answer.body.decode()) == (422, True)
    elif meant is None:
        assert (answer.status, answer.error[:19]) == (404, "there is no adapter")
    else:
        said = read(answer)
        assert (answer.status, LABELS[said["owner"], said["id"]]) == (200, meant)


@pytest.mark.parametrize("asker", {asker: None for asker, *_ in TABLE}, ids=lambda a: a.owner)
def test_a_list_has_what_a_reference_could_mean_and_nothing_else(answers, asker):
    listed = {LABELS[each["owner"], each["id"]] for each in read(answers[asker])["results"]}
    meant = {label for who, _, label in TABLE if who == asker and label not in (None, SEVERAL)}
    unknown = {
        reference[1:-1]
        for who, reference, label in TABLE
        if (who, label) == (asker, None) and reference.startswith("<")
    }
    assert meant <= listed
    assert not listed & unknown
    assert all(not ADAPTERS[label][-1] for label in listed)


def test_to_change_one_of_an_id_that_two_have_its_owner_must_be_said(answers):
    answer = answers["twin"]
    assert (answer.status, "bob (" in answer.body.decode(), "dan (" in answer.body.decode()) == (
        422,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("reference", "owner", "meant"),
    [
        ("support", "amy", "amy2"),
        ("support@v1", "amy", "amy1"),
        ("support", None, SEVERAL),
        ("support@v2", None, "amy2"),
        ("pair", None, SEVERAL),
        ("old", None, "old1"),
        ("<old1>", None, "old1"),
        ("<dan2>", None, SEVERAL),
        ("<dan2>", "dan", "dan2"),
        ("late", None, None),
        ("none", None, None),
    ],
)
def test_a_command_at_the_folder_which_is_the_operators(tmp_path, reference, owner, meant):
    fill(AdapterStore(tmp_path / "adapters"))
    stored = StoredAdapters(RunnerSettings(weights_dir=tmp_path))
    if meant == SEVERAL:
        with pytest.raises(UsageError, match=r"is of several owners: .*`--owner` of a command"):
            stored.get(spelled(reference), owner=owner)
    elif meant is None:
        with pytest.raises(UsageError, match="there is no adapter"):
            stored.get(spelled(reference), owner=owner)
    else:
        found = stored.get(spelled(reference), owner=owner)
        assert LABELS[found["owner"], found["id"]] == meant
    assert OPERATOR.owner not in {owner for owner, *_ in ADAPTERS.values()}


@pytest.mark.parametrize("asker", {asker: None for asker, *_ in TABLE}, ids=lambda a: a.owner)
def test_a_run_knows_who_asks_whatever_its_caller_writes(tmp_path, make_runner, asker):
    runner = make_runner(Letters())
    forged = {OWNER_KEY: "amy", ADMIN_KEY: "true", "own": "x"}

    async def story():
        site = Site(tmp_path)
        await site.harness.records.register()
        body = {"input": {}, "context": forged}
        asked = site.asking("POST", "/predictions", body, key=key_of(asker))
        await until(lambda: asyncio.sleep(0, bool(site.model.runs)))
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await site.harness.webhooks.close()
        await site.harness.records.close()
        return next(each for each in site.model.said if isinstance(each, Run)).context

    context = asyncio.run(asyncio.wait_for(story(), 30))
    assert context["own"] == "x"
    assert runner.asker_of(forged) == NO_KEYS  # no server vouches for it
    runner.read_owner_from(OWNER_KEY)
    runner.read_admin_from(ADMIN_KEY)
    assert runner.asker_of(context) == asker


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize(
    "zone", [None, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11))]
)
def test_a_time_is_over_in_its_own_zone_or_in_utc(hours, zone):
    end = datetime.now(UTC) + timedelta(hours=hours)
    text = (end.astimezone(zone) if zone else end.replace(tzinfo=None)).isoformat()
    known = replace(describe(adapter_of(1), size=1, owner="amy"), expires_at=text)
    assert may_use(AMY, known) is (hours > 0)
