"""What Ray Serve is told, and what one replica does, without Ray."""

import asyncio
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from uvicorn import Config
from uvicorn.lifespan.on import LifespanOn

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.settings import Settings, read_settings
from deploy.ray.options import Options
from deploy.ray.replica import WholeServer
from deploy.ray.scaling import replicas_for_work
from tests.cog_adapt.server.asgi_client import asked
from tests.cog_adapt.waiting import until


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("DEVICE", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize(("device", "gpus"), [("auto", 0), ("cpu", 0), ("cuda", 1), ("cuda:0", 1)])
def test_devices_and_cores_are_those_of_the_settings(environment, device, gpus):
    environment("DEVICE", device)
    environment("OMP_NUM_THREADS", "3")
    options = Options()
    assert (options.num_gpus, options.num_cpus) == (gpus, 3)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas is 2, below min_replicas, 3"),
        ({"min_replicas": 0}, "min_replicas"),
        ({"num_gpus": 0}, "Ray hides every device"),
        ({"gpus": 1}, "gpus"),
        ({"drain_seconds": float("inf")}, "drain_seconds"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(environment, given, problem):
    environment("DEVICE", "cuda")
    with pytest.raises(ValidationError, match=problem):
        Options(**given)


@pytest.mark.parametrize(
    ("option", "setting", "drain"),
    [(None, None, 300), (None, 20, 20), (None, 0, 0), (5, 20, 5), (0, None, 0)],
)
def test_a_replica_has_longer_to_end_than_to_drain(option, setting, drain):
    options = Options(drain_seconds=option).with_drain(Settings(drain_seconds=setting))
    assert options.drain_seconds == drain
    assert options.seconds_to_end > 2 * drain + 30


@pytest.mark.parametrize("url", [None, "sqlite:///records.db"])
def test_replicas_without_a_shared_database_are_refused(url):
    settings = Settings(database_url=url)
    Options(max_replicas=1).check_shared(settings)
    with pytest.raises(ConfigError, match="max_replicas is 2.*Set DATABASE_URL"):
        Options(max_replicas=2).check_shared(settings)
    Options(max_replicas=2).check_shared(Settings(database_url="postgresql://db/records"))


@pytest.mark.parametrize(
    ("waiting", "adaptations", "replicas"),
    [((0, 0), (0, 0), 1), ((8, 0), (0, 0), 1), ((8, 0), (0, 1), 2), ((40, 40), (8, 8), 5)],
)
def test_replicas_are_as_many_as_waiting_runs_and_adaptations_need(waiting, adaptations, replicas):
    numbers = {"waiting": waiting, "adaptations": adaptations}
    context = SimpleNamespace(
        aggregated_metrics={
            name: dict(zip("ab", each, strict=True)) for name, each in numbers.items()
        },
        config=SimpleNamespace(get_target_ongoing_requests=lambda: 8.0),
        capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=5,
    )
    assert replicas_for_work(context) == (replicas, {})


def test_without_any_numbers_the_least_replicas_are_kept():
    context = SimpleNamespace(
        aggregated_metrics=None,
        config=SimpleNamespace(get_target_ongoing_requests=lambda: 8.0),
        capacity_adjusted_min_replicas=2,
        capacity_adjusted_max_replicas=5,
    )
    assert replicas_for_work(context) == (2, {})


CODE = """
    import asyncio
    from pathlib import Path

    from cog import BaseRunner

    class Model(BaseRunner):
        def setup(self) -> None:
            if Path(__file__).with_name("broken").exists():
                raise RuntimeError("no weights")

        async def run(self, adapts: bool = False) -> str:
            if adapts:
                self.record_metric("adaptation.step", 1)
            while not Path(__file__).with_name("open").exists():
                await asyncio.sleep(0.01)
            return "done"

        def healthcheck(self) -> bool:
            return not Path(__file__).with_name("ill").exists()
"""


@pytest.fixture
def replica(monkeypatch, tmp_path, environment):
    """Runs a story of one replica, as Ray does, with a model in `tmp_path`."""
    monkeypatch.chdir(Path.cwd())  # a replica changes it
    monkeypatch.setattr("deploy.ray.replica.start_settings", read_settings)
    (tmp_path / "model.py").write_text(textwrap.dedent(CODE))
    environment("COG_PREDICT_TYPE_STUB", f"{tmp_path}/model.py:Model")
    environment("COG_TRAIN_TYPE_STUB", "")
    environment("COG_MAX_CONCURRENCY", "2")
    environment("DATA_DIR", str(tmp_path / "data"))

    def run(story):
        async def whole():
            server = WholeServer(Options(drain_seconds=1))
            app = server.__serve_build_asgi_app__()
            lifespan = LifespanOn(Config(app, lifespan="on", log_config=None))
            await lifespan.startup()
            try:
                return await story(server, app)
            finally:
                (tmp_path / "open").touch()
                await lifespan.shutdown()

        return asyncio.run(whole())

    return run


async def status(app, method, path, **more):
    return (await asked(app, method, path, **more)).status


def test_a_replica_is_healthy_once_its_model_is_ready_and_cannot_be_ended(replica):
    async def story(server, app):
        await server.check_health()
        ready, ended = [
            await asked(app, *each) for each in (("GET", "/readyz"), ("POST", "/shutdown"))
        ]
        return ready.status, ended.status, ended.error

    ready, ended, error = replica(story)
    assert (ready, ended) == (200, 403)
    assert "`serve shutdown`" in error


def test_a_replica_whose_setup_failed_is_unhealthy_with_the_reason(replica, tmp_path):
    (tmp_path / "broken").touch()

    async def story(server, app):
        with pytest.raises(RuntimeError, match="Setup has failed"):
            await server.check_health()

    replica(story)


def test_a_replica_whose_model_says_so_is_unhealthy(replica, tmp_path):
    async def story(server, app):
        await server.check_health()
        (tmp_path / "ill").touch()
        with pytest.raises(RuntimeError, match="not fit to serve"):
            await server.check_health()

    replica(story)


def test_a_replica_counts_what_waits_and_what_adapts(replica):
    async def story(server, app):
        await server.check_health()
        headers = {"content-type": "application/json", "prefer": "respond-async"}
        for adapts in (b"true", b"false", b"false"):
            body = b'{"input": {"adapts": %s}}' % adapts
            assert await status(app, "POST", "/predictions", headers=headers, parts=(body,)) == 202

        async def counted():
            return await server.record_autoscaling_stats() == {"waiting": 1.0, "adaptations": 1.0}

        await until(counted)

    replica(story)


def test_callers_through_the_proxy_are_not_local(replica):
    async def story(server, app):
        headers = {"host": "localhost"}
        local = {"headers": headers, "client": ("127.0.0.1", 1)}
        return await status(app, "DELETE", "/predictions/any", **local)

    assert replica(story) == 403
