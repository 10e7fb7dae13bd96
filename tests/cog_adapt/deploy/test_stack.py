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


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    program("prometheus")
    folder = Path(os.environ.get("OPERATORS_KEPT") or tmp_path_factory.mktemp("stack"))
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.cog_adapt.deploy.stack", str(folder)]
    done = subprocess.run(
        ["unshare", "--net", "--mount", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads((folder / "found.json").read_text())


@pytest.mark.timeout(600)
def test_every_panel_of_the_dashboard_has_an_answer_under_load(found):
    assert {title: counts for title, counts in found["panels"].items() if 0 in counts} == {}


@pytest.mark.timeout(600)
def test_an_alert_arrives_at_the_webhook_with_its_runbook(found):
    assert found["alert"]["labels"]["instance"] == "server:5000"
    assert found["alert"]["annotations"]["runbook"] == "docs/monitoring.md#cogserverdown"
