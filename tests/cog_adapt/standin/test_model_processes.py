"""Two model processes on two devices: each adapts, answers and is tested on its own."""

import os
import textwrap

import pytest
import torch

from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.waiting import wait_until
from tests.standin import VERSION

GIGABYTES = [4, 3]  # of the stand-in's two cards, by which a process is told apart
CODE = """
    from tests.standin.load import load

    load()  # before torch, as a card's driver is there before it

    import torch
    from cog import BaseRunner

    from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
    from tests.cog_adapt.models import Letters


    class Learner(BaseRunner):
        def setup(self) -> None:
            self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())
            self.runner.self_test(self.run).raise_if_failed()

        async def run(self, adapter: str = "", examples: str = "") -> list[str]:
            memory = torch.cuda.get_device_properties(0).total_memory
            place = f"{torch.cuda.device_count()} {memory // 2**30} {torch.get_num_threads()}"
            request = Request(
                ["abc"],
                labels=() if adapter or examples else ("few", "many"),
                examples=examples,
                adapter=adapter,
                recipe=Recipe(max_steps=2),
            )
            return [place, (await answer(self.runner, request, self.scope)).adapter or ""]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if torch.version.cuda != VERSION:
        pytest.skip("the stand-in is not loaded: make standin")
    folder = tmp_path_factory.mktemp("served")
    (folder / "learner.py").write_text(textwrap.dedent(CODE))
    env = {
        "MODEL_PROCESSES": "auto",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "DEVICE": "cuda",
        "OMP_NUM_THREADS": "",
        "COG_MAX_CONCURRENCY": "2",
        "WEIGHTS_DIR": str(folder / "weights"),
    }
    with serving("mirror", folder, predict="learner.py:Learner", env=env, until="up") as server:
        wait_until(lambda: server.get("/readyz").json().get("degraded") is None, 240)
        wait_until(lambda: server.get("/readyz").status_code == 200, 240)
        yield server


def rows(seed):
    return "\n".join(
        f'{{"text": "{text * seed}", "label": "{label}"}}'
        for text, label in [("aab", "few"), ("zzz", "many"), ("bab", "few"), ("yzz", "many")]
    )


def test_each_process_has_a_card_of_its_own_as_its_first(server):
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    found = {server.output()[0] for _ in range(2)}  # one after the other they take turns
    assert found == {f"1 {memory} {threads}" for memory in GIGABYTES}


def test_each_process_proves_on_its_card_that_gradients_flow(server):
    health = server.health()["workers"]
    assert [each["device"] for each in health] == ["0", "1"]
    assert [each["self_test"]["passed"] for each in health] == [True, True]
    again = server.request("POST", "/selftest").json()
    assert [each["passed"] for each in again["workers"]] == [True, True]


def test_adaptations_go_to_either_card_and_their_adapters_are_asked_there(server):
    learnt = {}
    for seed in (1, 2):
        place, adapter = server.output(examples=rows(seed))
        learnt[place] = adapter
    assert len(learnt) == 2  # an adaptation on each card
    for place, adapter in learnt.items():
        assert server.output(adapter=adapter) == [place, adapter]  # where it is warm


def test_the_numbers_of_each_process_have_its_name(server):
    text = server.get("/metrics").text
    for worker in ("0", "1"):
        assert f'cog_model_device_memory_bytes{{worker="{worker}"}}' in text
