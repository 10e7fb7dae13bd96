"""The application put together: its parts, its routes, and what is left at its end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from cog_adapt.server import upkeep
from cog_adapt.server.api.dependencies import parts_in
from cog_adapt.server.app import Launch, create_app, launch
from cog_adapt.server.errors import StorageError
from cog_adapt.server.records import Records
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.routes_walk import routes_of
from tests.cog_adapt.waiting import assert_stays_so, until

UPLOADS = "https://files.example/out/"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Runs a scene while an application runs; no worker is started."""
    monkeypatch.setattr(PredictionService, "open", lambda _: None)

    def run(scene, kinds=("predict", "train"), **settings):
        chosen = Settings(data_dir=tmp_path, **settings)
        app = create_app(chosen)
        records, metrics = Records.open(None, tmp_path), Metrics()
        configs = {kind: WorkerConfig("x.py:X", kind, upload_url=UPLOADS) for kind in kinds}
        shutdowns = []
        launched = Launch(configs, kinds[0], records, metrics, lambda: shutdowns.append(1), print)
        launch(app, launched)

        async def story():
            async with app.router.lifespan_context(app):
                await scene(app, launched)

        asyncio.run(asyncio.wait_for(story(), 30))
        return app, launched, shutdowns

    return run


def test_the_parts_are_made_of_what_was_launched(started):
    async def scene(app, launched):
        parts = parts_in(app)
        assert parts.service.records is launched.records
        assert parts.metrics is launched.metrics
        assert (parts.service.mode, set(parts.service.dispatchers)) == (
            "predict",
            {"predict", "train"},
        )
        assert parts.settings.max_queue == 7
        assert parts.upload_url == UPLOADS
        assert parts.service.main.waiting.most == 7
        parts.shut_down()

    assert started(scene, max_queue=7)[2] == [1]


def test_it_is_registered_before_anything_runs(started, monkeypatch):
    calls = []
    monkeypatch.setattr(PredictionService, "open", lambda _: calls.append("open"))
    register = Records.register

    async def note(records, url):
        calls.append("register")
        await register(records, url)

    monkeypatch.setattr(Records, "register", note)

    async def scene(app, _launched):
        assert app.title == "Cog"

    started(scene)
    assert calls == ["register", "open"]


def test_a_server_that_only_trains_has_one_dispatcher(started):
    async def scene(app, _):
        service = parts_in(app).service
        assert (service.mode, list(service.dispatchers)) == ("train", ["train"])

    started(scene, kinds=("train",))


def test_at_its_end_all_is_drained_in_the_time_that_is_set_and_closed(started, monkeypatch):
    calls = []

    async def note(name, *values):
        calls.append((name, *values))

    async def scene(app, launched):
        parts: Any = parts_in(app)
        close, drain = parts.service.close, parts.webhooks.drain
        stop, shut = parts.webhooks.close, launched.records.close
        parts.service.close = _after(note, "service", close)
        parts.webhooks.drain = _after(note, "drain", drain)
        parts.webhooks.close = _after(note, "webhooks", stop)
        monkeypatch.setattr(launched.records, "close", _after(note, "records", shut))

    started(scene, drain_seconds=2)
    assert calls == [("service", 2), ("drain", 1.0), ("webhooks",), ("records",)]
    calls.clear()
    started(scene, drain_seconds=None)
    assert calls[:2] == [("service", None), ("drain", None)]


def _after(note, name, call):
    async def noted(*values):
        await note(name, *values)
        await call(*values)

    return noted


@pytest.fixture
def short_waits(monkeypatch):
    """Lets a pause or a limit of seconds take a twentieth of one, but for the test's own."""
    sleep, timeout = asyncio.sleep, asyncio.timeout
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(seconds if seconds < 1 else 0.05))
    monkeypatch.setattr(
        asyncio, "timeout", lambda seconds: timeout(seconds if seconds <= 20 else 0.05)
    )


def test_old_records_are_deleted_again_and_again_whatever_happens(
    started, short_waits, monkeypatch
):
    pruned: list[Any] = []
    swept: list[Any] = []
    monkeypatch.setattr(upkeep, "remove_old_temp_files", swept.append)

    async def prune(_records, age, count):
        pruned.append((age, count))
        if len(pruned) == 1:
            raise StorageError("full")

    async def scene(_app, _launched):
        await until(lambda: len(pruned) >= 3)

    monkeypatch.setattr(Records, "prune", prune)
    started(scene, retention_days=3, retention_count=4)
    assert set(pruned) == {(timedelta(days=3), 4)}
    assert set(swept) == {7}


def test_records_are_pruned_at_once_where_the_disk_is_full(started, monkeypatch):
    sleep, pruned = asyncio.sleep, []
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(min(seconds, 0.05)))

    async def prune(records, *_):
        pruned.append(1)
        records.space.low.clear()

    async def scene(_app, launched):
        launched.records.space.limit(10)
        for count in (1, 2, 3):
            await until(lambda count=count: len(pruned) >= count)
            assert len(pruned) == count
            launched.records.space.refuse_if_full(10)

    monkeypatch.setattr(Records, "prune", prune)
    started(scene)


def test_records_are_pruned_while_it_runs(started, monkeypatch):
    looks = []

    async def prune(*_):
        looks.append(1)

    monkeypatch.setattr(Records, "prune", prune)

    async def scene(_app, _launched):
        await until(lambda: looks)
        await assert_stays_so(lambda: looks == [1], 0.05)

    started(scene)
    assert looks == [1]


@pytest.mark.parametrize("strict", [True, False])
def test_cogs_server_has_no_history(strict):
    routes = set(routes_of(create_app(Settings(strict_cog=strict))))
    for noun in ("predictions", "trainings"):
        assert {("POST", f"/{noun}"), ("PUT", f"/{noun}/some-id")} <= routes
        assert ("POST", f"/{noun}/some-id/cancel") in routes
        assert (("GET", f"/{noun}/some-id") in routes) is not strict
    assert {("GET", "/healthz"), ("GET", "/docs"), ("GET", "/docs/some-id")} <= routes
    assert not {("GET", "/redoc"), ("GET", "/docs/oauth2-redirect")} & routes


@pytest.mark.parametrize("strict", [True, False])
def test_cogs_server_has_no_adapters(strict):
    routes = routes_of(create_app(Settings(strict_cog=strict)))
    found = {method for method, path in routes if path.startswith("/adapters")}
    assert found == (set() if strict else {"GET", "HEAD", "POST", "PATCH", "DELETE"})


@pytest.mark.parametrize(("strict", "body"), [(True, b""), (False, b'{"error":"there is no such')])
def test_what_is_raised_is_answered_in_the_servers_manner(strict, body):
    app = create_app(Settings(strict_cog=strict))
    answer = ask(app, path="/no/such")
    assert (answer.status, answer.body[: len(body) or None]) == (404, body)
    assert ask(app, path="/predictions/").status == 404  # no slash is added or left out
