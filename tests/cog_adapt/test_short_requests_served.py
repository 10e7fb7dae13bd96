"""Short predictions are answered while more adaptations run and wait than there are turns."""

from pathlib import Path

import pytest

from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "tickets.jsonl"
ADAPTATIONS = 16
WAITS = "waits for its turn: 4 other adaptations under way"
ENDED = {"succeeded", "failed", "canceled"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    (folder / "predict.py").symlink_to(ROOT / "predict.py")
    env = {"WEIGHTS_DIR": str(folder / "weights"), "ADAPTATIONS_AT_ONCE": "4"}
    with serving("mirror", folder, predict="predict.py:Predictor", env=env) as running:
        yield running


def begin_adaptation(server, seed):
    values = {
        "text": "x",
        "examples": "\n".join(EXAMPLES.read_text().splitlines()[:8]),
        "method": "lora",
        "steps": 2000,
        "seed": seed,
    }
    headers = {"Prefer": "respond-async"}
    return server.post("/predictions", {"input": values}, headers=headers).json()["id"]


def test_a_short_request_waits_for_no_adaptation(server):
    ids = [begin_adaptation(server, seed) for seed in range(ADAPTATIONS)]
    wait_until(lambda: sum(WAITS in logs_of(server, each) for each in ids) == ADAPTATIONS - 4, 60)
    short = server.post("/predictions", {"input": {"text": "It broke.", "labels": ["a", "b"]}})
    assert short.json()["status"] == "succeeded"
    seen = {each: server.get(f"/predictions/{each}").json()["status"] for each in ids}
    for each in ids:
        server.post(f"/predictions/{each}/cancel")
    assert {*seen.values()} == {"processing"}
    wait_until(lambda: all(status_of(server, each) in ENDED for each in ids), 60)


def logs_of(server, prediction):
    return server.get(f"/predictions/{prediction}").json().get("logs", "")


def status_of(server, prediction):
    return server.get(f"/predictions/{prediction}").json()["status"]
