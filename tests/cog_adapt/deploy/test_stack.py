"""The monitoring with real programs: `make operators`, minutes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.deploy.operators import ROOT, program

pytestmark = pytest.mark.skipif(
    "OPERATORS" not in os.environ, reason="takes minutes: `make operators` runs it"
)


def found_by(script, folder):
    """What a script of this folder finds, in a network and with files of its own."""
    program("prometheus")
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", f"tests.cog_adapt.deploy.{script}", str(folder)]
    done = subprocess.run(
        ["unshare", "--net", "--mount", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    kept = os.environ.get("OPERATORS_KEPT")
    return found_by("stack", Path(kept or tmp_path_factory.mktemp("stack")))


@pytest.mark.timeout(600)
def test_every_panel_of_the_dashboard_has_an_answer_under_load(found):
    assert {title: counts for title, counts in found["panels"].items() if 0 in counts} == {}


@pytest.mark.timeout(600)
def test_an_alert_arrives_at_the_webhook_with_its_runbook(found):
    assert found["alert"]["labels"]["instance"] == "server:5000"
    assert found["alert"]["annotations"]["runbook"] == "docs/monitoring.md#cogserverdown"


@pytest.mark.timeout(200)
def test_in_kubernetes_prometheus_finds_servers_by_name_and_asks_by_a_key(tmp_path):
    assert found_by("scrape_by_name", tmp_path)["instance"] == "127.0.0.1:5000"
