"""What a receipt says of where an adaptation ran, and how two of them differ."""

import torch

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.requests.run_facts import data_digest, differences, facts_of
from tests.cog_adapt.devices import DEVICE, PLACE
from tests.cog_adapt.models import Letters


def test_they_name_task_base_versions_device_and_determinism(make_runner):
    runner = make_runner(Letters(), precision="fp32")
    facts = facts_of(runner)
    assert facts["task"]["class"] == "Letters"
    assert len(facts["task"]["source"]) == 64
    assert facts["base"] == {"before": runner.base, "after": runner.base}
    assert {"torch", "python", "cog_adapt"} <= {*facts["versions"]}
    assert facts["device"]["precision"] == f"{PLACE}/fp32"
    assert facts["device"]["threads"] == torch.get_num_threads()
    assert facts["determinism"] == {
        "deterministic_algorithms": False,
        "bit_for_bit": DEVICE == "cpu",
    }


def test_differences_are_named_with_both_values(make_runner):
    now = facts_of(make_runner(Letters()))
    assert differences(now, now) == []
    then = now | {"device": now["device"] | {"threads": 99}, "versions": {}}
    found = differences(then, now)
    assert f"device threads: 99 then, {torch.get_num_threads()} now" in found
    assert any(each.startswith("versions torch: None then") for each in found)


def test_examples_have_a_digest_whatever_they_are():
    plain, odd = [Example("a", "b")], [Example({1, 2}, "b")]
    assert data_digest(plain) == data_digest([Example("a", "b")])
    assert data_digest(plain) != data_digest([Example("a", "c")])
    assert len(data_digest(odd)) == len(data_digest(plain)) == 64
