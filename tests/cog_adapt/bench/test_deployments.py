"""The walks through deployments: what is committed, and how Prometheus is configured."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from bench.deployments.page import failed, missing, page
from bench.deployments.walk import SCRAPE_SECONDS, watcher
from bench.deployments.watching import DASHBOARD, MONITORING, ROOT

RESULTS = ROOT / "docs" / "results"
WALKS = json.loads((RESULTS / "deployments.json").read_text())


def test_the_page_is_made_from_the_numbers():
    assert (RESULTS / "deployments.md").read_text() == page(WALKS)
    assert {"server", "servers", "docker", "compose", "ray"} == WALKS.keys()


@pytest.mark.parametrize("name", WALKS)
def test_every_step_held_and_every_panel_was_asked_and_drawn(name):
    assert failed(WALKS[name]) == []
    assert [*WALKS[name]["panels"]] == [each["title"] for each in DASHBOARD["panels"]]
    assert (ROOT / "docs" / "images" / f"dashboard-{name}.png").is_file()


def test_a_step_that_did_not_hold_and_a_panel_without_an_answer_are_named():
    walk = WALKS["server"] | {"the record is kept": False, "panels": {"A": [1, 0], "B": [2]}}
    assert failed(walk) == ["the record is kept"]
    assert missing(walk["panels"]) == ["A"]
    assert "| panels that answer | 1 of 2 |" in page({"server": walk})
    assert "| the record is kept | **no** |" in page({"server": walk})


def test_prometheus_has_the_shipped_configuration_but_for_targets_and_interval(tmp_path):
    watcher(tmp_path, "127.0.0.1:9", ["127.0.0.1:1", "127.0.0.1:2"])
    written = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    shipped = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    shipped["global"]["scrape_interval"] = f"{SCRAPE_SECONDS}s"
    targets = [{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]
    assert shipped["scrape_configs"][0]["static_configs"] != targets
    shipped["scrape_configs"][0]["static_configs"] = targets
    assert written == shipped


@pytest.mark.parametrize("name", ["docker", "compose"])
def test_without_docker_a_sentence_says_what_to_do(name):
    done = subprocess.run(
        [sys.executable, "-m", "bench.deployments", name],
        cwd=ROOT,
        env=os.environ | {"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "docker is not on the PATH. Install Docker, or add its folder.\n"
