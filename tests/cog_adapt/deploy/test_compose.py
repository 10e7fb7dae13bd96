"""The Compose files: the real program takes them, and they hold what the documents promise."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cog_adapt.deploy.operators import DEPLOY, run

COMPOSE, GPU = DEPLOY / "compose/compose.yaml", DEPLOY / "compose/compose.gpu.yaml"
PASSWORD = {"POSTGRES_PASSWORD": "one"}
END_SECONDS = 5


def config(*files: Path, profile: str = "monitoring") -> Any:
    """What Compose makes of files."""
    named = [part for file in files for part in ("--file", file)]
    done = run("docker-compose", *named, "--profile", profile, "config", more=PASSWORD)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def seconds(text: str) -> int:
    minutes, _, rest = text.rpartition("m")
    return 60 * int(minutes or 0) + int(rest.rstrip("s") or 0)


def test_the_server_waits_for_its_database_and_may_drain():
    services = config(COMPOSE)["services"]
    server = services["server"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["database"]["healthcheck"]["test"]
    drain = int(server["environment"]["DRAIN_SECONDS"])
    assert seconds(server["stop_grace_period"]) > drain + END_SECONDS
    assert server["environment"]["DATABASE_URL"] == "postgresql://cog:one@database/cog"


def test_the_server_is_hardened_and_every_port_is_on_loopback():
    services = config(COMPOSE)["services"]
    assert services["server"]["read_only"]
    assert services["server"]["cap_drop"] == ["ALL"]
    ports = [port for each in services.values() for port in each.get("ports", [])]
    assert len(ports) == 4
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_monitoring_is_a_profile_and_its_files_exist():
    asked, plain = config(COMPOSE)["services"], config(COMPOSE, profile="none")["services"]
    assert plain.keys() == {"server", "database"}
    assert asked.keys() - plain.keys() == {"prometheus", "alertmanager", "grafana"}
    mounts = [mount for each in asked.values() for mount in each["volumes"]]
    files = [Path(mount["source"]) for mount in mounts if mount["type"] == "bind"]
    assert len(files) == 6
    assert all(file.is_file() for file in files)


def test_on_a_gpu_host_the_second_file_gives_the_server_its_gpus():
    server = config(COMPOSE, GPU)["services"]["server"]
    (device,) = server["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    assert server["environment"]["DEVICE"] == "cuda"
    assert server["environment"]["DRAIN_SECONDS"] == "300"


def test_a_file_of_keys_is_mounted_for_the_server(tmp_path):
    keys = DEPLOY / "compose/compose.keys.yaml"
    files: list[str | Path] = ["--file", COMPOSE, "--file", keys, "config"]
    done = run("docker-compose", *files, more=PASSWORD | {"API_KEYS_FILE": str(tmp_path / "keys")})
    found = yaml.safe_load(done.stdout)
    (secret,) = found["services"]["server"]["secrets"]
    path = found["services"]["server"]["environment"]["API_KEYS_FILE"]
    assert path == f"/run/secrets/{secret['source']}"
    assert found["secrets"]["api-keys"]["file"] == str(tmp_path / "keys")
    missing = run("docker-compose", *files, more=PASSWORD)
    assert "API_KEYS_FILE is missing a value" in missing.stderr


def test_without_a_password_the_variable_is_named():
    done = run("docker-compose", "--file", COMPOSE, "config")
    assert done.returncode != 0
    assert "POSTGRES_PASSWORD is missing a value" in done.stderr


@pytest.mark.parametrize("file", [COMPOSE, GPU])
def test_a_key_that_compose_does_not_know_is_named(file, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(file.read_text().replace("environment:", "enviroment:", 1))
    done = run("docker-compose", "--file", broken, "config", more=PASSWORD)
    assert done.returncode != 0
    assert "enviroment" in done.stderr
