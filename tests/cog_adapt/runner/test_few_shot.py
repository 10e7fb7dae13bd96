"""One request from end to end: adapt, answer, keep the adapter, say what happened."""

import asyncio
import json
import logging
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import AdapterNotFound, InputError, StoreError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests import few_shot, learning
from cog_adapt.runner.requests.few_shot import answer, stream
from cog_adapt.runner.storage import folder
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Letters, Regression, examples, inputs
from tests.cog_adapt.waiting import until

EXAMPLES = json.dumps({"low": ["aa", "ab", "ac"], "high": ["ya", "yb", "yc"]})
TEXTS = ["ab", "yc", "mm"]
FEW = Recipe(max_steps=3, learning_rate=0.02)


@dataclass(frozen=True)
class Shouting:
    """Options of a task."""

    times: int = 1


class Fixed(Letters):
    """A task with a fixed label set, options, and a stream."""

    options = Shouting()

    def labels(self, examples):
        return ("low", "high")

    def predict(self, module, batch, labels, options):
        return super().predict(module, batch, labels, None) * options.times

    def shortened(self, inputs):
        return [i for i, text in enumerate(inputs) if len(text) > 3]

    def generate(self, module, batch, options):
        for number in range(options.times):
            yield f"piece {number}"


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


@pytest.fixture
def fixed(make_runner):
    return make_runner(Fixed())


def request_of(**values):
    defaults: dict[str, Any] = {"inputs": TEXTS, "recipe": FEW}
    return Request(**defaults | values)


def scope_of(record=None, owner=None):
    context = {"owner": owner} if owner else {}
    return SimpleNamespace(context=context, record_metric=record or (lambda *_pair: None))


def ask(runner, record=None, owner=None, **values):
    return asyncio.run(answer(runner, request_of(**values), scope_of(record, owner)))


def streamed(runner, record=None, **values):
    async def pieces():
        return [piece async for piece in stream(runner, request_of(**values), scope_of(record))]

    return asyncio.run(pieces())


def test_labels_alone_are_scored_by_the_base(runner):
    done = ask(runner, labels=["low", "high"])
    assert done.predictions == runner.predict(TEXTS, None, ("low", "high"))
    assert (done.before, done.adapter, done.report) == (None, None, None)


def test_examples_adapt_and_their_adapter_can_be_named_later(runner):
    recorded = []
    done = ask(runner, lambda name, _value: recorded.append(name), examples=EXAMPLES)
    assert done.before == runner.predict(TEXTS, None, ("low", "high"))
    assert done.predictions != done.before
    assert done.report["stored"] is True
    assert done.report["warnings"] == []
    assert done.report["steps"] == 3 == recorded.count("adaptation.step")
    later = ask(runner, adapter=done.adapter)
    assert later.predictions == done.predictions
    assert later.adapter == done.adapter


def test_a_file_of_examples_and_a_file_of_weights_do_the_same(runner, tmp_path):
    (tmp_path / "examples").write_text(EXAMPLES)
    done = ask(runner, examples=EXAMPLES)
    again = ask(runner, examples_file=tmp_path / "examples")
    assert again.adapter == done.adapter
    (tmp_path / "adapter").write_bytes(runner.store.get(done.adapter).to_bytes())
    assert ask(runner, weights=tmp_path / "adapter").predictions == done.predictions


def test_an_adapter_and_examples_go_on_training_it(runner):
    first = ask(runner, examples=EXAMPLES)
    again = ask(runner, examples=EXAMPLES, adapter=first.adapter)
    assert again.before == first.predictions
    assert again.adapter != first.adapter


MORE = json.dumps({"high": ["yd", "ye"], "mid": ["ma", "mb", "mc"]})
ONE_LABEL = json.dumps({"mid": ["ma", "mb", "mc"]})


@pytest.mark.parametrize(
    ("sent", "asked", "labels"),
    [
        (MORE, [], ("low", "high", "mid")),
        (json.dumps({"high": ["yd"]}), [], ("low", "high")),
        (ONE_LABEL, [], ("low", "high", "mid")),
        (MORE, ["mid", "high"], ("mid", "high")),
        (ONE_LABEL, ["mid", "low"], ("low", "mid")),
        (MORE, ["low", "high", "mid"], ("low", "high", "mid")),
    ],
)
def test_one_goes_on_with_a_part_of_the_labels_and_with_new_ones(runner, sent, asked, labels):
    first = ask(runner, examples=EXAMPLES)
    done = ask(runner, examples=sent, labels=asked, adapter=first.adapter)
    adapter = runner.store.get(done.adapter)
    assert set(adapter.labels) == set(labels)
    assert done.before == first.predictions
    assert len(done.predictions[0]) == len(labels)
    assert runner.store.known(done.adapter, "").parent == first.adapter
    assert adapter.tensors["head.weight"].shape[0] == len(labels)


def test_labels_that_one_goes_on_with_keep_their_rows_and_new_ones_begin_afresh(runner):
    first = runner.store.get(ask(runner, examples=EXAMPLES).adapter)
    still = Recipe(max_steps=1, learning_rate=1e-8)
    done = ask(runner, examples=MORE, adapter=first.id, recipe=still)
    adapter = runner.store.get(done.adapter)
    modules = runner.model.predictions.modules
    fresh = finished(modules.starting_adapter(adapter.labels)).tensors["head.weight"]
    for row, label in enumerate(adapter.labels):
        known = label in first.labels
        own = first.tensors["head.weight"][first.labels.index(label)] if known else fresh[row]
        torch.testing.assert_close(adapter.tensors["head.weight"][row], own, atol=1e-6, rtol=0)
    for name, tensor in first.tensors.items():
        if not name.startswith("head."):
            torch.testing.assert_close(adapter.tensors[name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize("asked", [["low", "high"], ["low", "mid", "other"], ["mid"]])
def test_labels_that_do_not_hold_the_examples_are_refused(runner, asked):
    first = ask(runner, examples=EXAMPLES)
    with pytest.raises(InputError, match="must be among the labels of the adapter"):
        ask(runner, examples=MORE, labels=asked, adapter=first.adapter)


def test_an_adapter_knows_how_it_was_made(runner):
    recipe = Recipe(max_steps=3, learning_rate=0.02, hold_out=0.3, seed=5)
    rows = json.dumps({"low": [*"abcdefg"], "high": [*"tuvwxyz"]})
    done = ask(runner, examples=rows, recipe=recipe)
    known = runner.store.known(done.adapter, "").to_json()
    assert known["recipe"]["method"] == "lora"
    assert known["recipe"]["rank"] == 8
    assert known["recipe"]["seed"] == 5
    assert known["recipe"]["learning_rate"] == 0.02
    assert known["recipe"]["steps"] == 3
    assert (known["examples"], known["labels"]) == (14, ["low", "high"])
    assert len(known["examples_digest"]) == 64
    assert known["score_before"] == done.report["held_out_before"] is not None
    assert known["score_after"] == done.report["held_out_after"]
    assert (known["parent"], known["base"], known["hits"]) == (None, runner.base, 0)
    assert known["versions"]["torch"] == torch.__version__
    ask(runner, adapter=done.adapter)
    assert runner.store.known(done.adapter, "").hits == 1


def test_an_adapter_is_asked_for_by_name_and_version(runner):
    first, second = (
        ask(runner, examples=EXAMPLES, recipe=Recipe(max_steps=steps)) for steps in (1, 2)
    )
    for done in (first, second):
        runner.adapters.change("", done.adapter, {"name": "support"})
    assert ask(runner, adapter="support").predictions == second.predictions
    assert ask(runner, adapter="support@v1").adapter == first.adapter
    with pytest.raises(AdapterNotFound, match="'support@v3' is not known here"):
        ask(runner, adapter="support@v3")


def test_going_on_keeps_the_adapters_method_and_rank(runner):
    small = ask(runner, examples=EXAMPLES, recipe=Recipe("lora", 2, max_steps=1))
    again = ask(runner, examples=EXAMPLES, adapter=small.adapter, recipe=Recipe(max_steps=1))
    assert runner.store.get(again.adapter).rank == 2
    norms = ask(runner, examples=EXAMPLES, recipe=Recipe("norms", max_steps=1))
    again = ask(runner, examples=EXAMPLES, adapter=norms.adapter, recipe=Recipe(max_steps=1))
    assert again.report["method"] == "norms"


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("all"), "method is 'all', but adapter [0-9a-f]{16} was made with 'lora'"),
        (Recipe(rank=3), "rank is 3, but adapter [0-9a-f]{16} was made with 8"),
    ],
)
def test_another_method_or_rank_than_the_adapters_is_refused_naming_both(runner, recipe, message):
    first = ask(runner, examples=EXAMPLES)
    with pytest.raises(InputError, match=message):
        ask(runner, examples=EXAMPLES, adapter=first.adapter, recipe=recipe)


def test_the_processs_own_adapter_answers_where_none_is_named(runner, tmp_path):
    made = ask(runner, examples=EXAMPLES)
    (tmp_path / "w").write_bytes(runner.store.get(made.adapter).to_bytes())
    settings = RunnerSettings(device=DEVICE, weights_dir=tmp_path)
    with ModelRunner(Letters(), settings, str(tmp_path / "w")) as started:
        assert ask(started).predictions == made.predictions
        assert ask(started).adapter == made.adapter
        assert ask(started, labels=["low", "mid"]).adapter is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inputs": [], "labels": ["low", "high"]}, "no input"),
        ({}, "no labels"),
        ({"labels": ["low", "mid"], "examples": EXAMPLES}, "has the labels"),
        ({"examples": '{"low": ["aa", ""], "high": ["b"]}'}, "is empty"),
        ({"examples": "data:nothing"}, "`examples_file`"),
        ({"adapter": "0" * 16}, "is not known here"),
        ({"labels": ["low", "high"], "options": Shouting()}, "options are Shouting; Letters takes"),
    ],
)
def test_what_does_not_fit_is_refused(runner, values, message):
    with pytest.raises(InputError, match=message):
        ask(runner, **values)


def test_a_sent_file_that_is_no_adapter_of_this_base_is_its_callers_mistake(runner, tmp_path):
    (tmp_path / "w").write_text("hello")
    with pytest.raises(InputError, match="^`weights`: .*is no safetensors file"):
        ask(runner, weights=tmp_path / "w")
    foreign = Adapter({"head.bias": torch.zeros(2)}, ("a", "b"), "head", "f" * 16)
    (tmp_path / "w").write_bytes(foreign.to_bytes())
    with pytest.raises(InputError, match=f"^`weights`: .*was made on base {'f' * 16}"):
        ask(runner, weights=tmp_path / "w")


def test_a_full_disk_costs_the_adapters_survival_and_not_the_answer(runner, monkeypatch, caplog):
    def full(path, content):
        raise StoreError("full")

    monkeypatch.setattr(folder, "write_whole", full)
    with caplog.at_level(logging.WARNING, learning.__name__):
        done = ask(runner, examples=EXAMPLES)
    assert done.report["stored"] is False
    assert "is kept in memory only: full" in caplog.text
    assert ask(runner, adapter=done.adapter).predictions == done.predictions


@pytest.mark.parametrize(("module", "name"), [(few_shot, "_read_parts"), (learning, "_keep")])
def test_files_are_read_and_written_off_the_event_loop(runner, monkeypatch, module, name):
    """The patched function waits for the loop, for ever where it runs on the loop's own thread."""
    own, ticked = getattr(module, name), threading.Event()

    def waits(*args, **named):
        assert ticked.wait(10), "the event loop stood still"
        return own(*args, **named)

    async def asked():
        asyncio.get_running_loop().call_later(0.01, ticked.set)
        return await answer(runner, request_of(examples=EXAMPLES), scope_of())

    monkeypatch.setattr(module, name, waits)
    assert asyncio.run(asked()).report["stored"]


def _imports(source):
    return "".join(re.findall(r"^ *(?:import|from) .*$", source.read_text(), re.MULTILINE))


def test_the_runner_opens_no_address_of_a_caller():
    """The operator's COG_WEIGHTS may be a URL; nothing that a request carries is opened."""
    sources = Path(few_shot.__file__).parents[1].glob("**/*.py")
    opening = {
        path.name
        for path in sources
        if re.search(r"urllib(?!\.parse)|http.client|socket", path.read_text())
    }
    assert opening <= {"adapters.py"}


def test_a_fixed_label_set_needs_no_labels_in_a_request(fixed):
    done = ask(fixed)
    assert done.predictions == fixed.predict(TEXTS, None, ("low", "high"))
    with pytest.raises(InputError, match="`labels` has the labels .* but `the task` has"):
        ask(fixed, labels=["low", "mid"])


def test_a_task_without_labels_needs_none(make_runner):
    runner = make_runner(Regression())
    rows = [{"input": e.input, "target": e.target} for e in examples("regression")]
    done = ask(runner, inputs=inputs("regression"), examples=rows)
    assert len(done.predictions) == len(done.before) == 3
    assert done.predictions != done.before


def test_options_reach_the_task_and_default_to_its_own(fixed):
    assert len(ask(fixed).predictions) == 3
    assert len(ask(fixed, options=Shouting(2)).predictions) == 6


def test_texts_that_are_cut_and_rows_that_contradict_are_in_the_report(fixed):
    rows = [("aaaa", "low"), ("aaaa", "high"), ("b", "low")]
    sent = [{"input": text, "target": label, "more": 1} for text, label in rows]
    done = ask(fixed, inputs=["a", "abcd"], examples=sent)
    unused, contradictory, cut, cut_inputs = done.report["warnings"]
    assert unused == "columns not used: 'more'"
    assert "'high' in row 2 and 'low' in row 1" in contradictory
    assert cut == "examples longer than the model reads were cut: 1, 2"
    assert cut_inputs == "inputs longer than the model reads were cut: 2"
    assert ask(fixed, inputs=["abcd"]).report == {"warnings": ["inputs" + cut_inputs[6:-1] + "1"]}


def test_a_loss_that_grows_is_in_the_report_with_the_rate_and_what_to_send(runner):
    def warnings_at(rate):
        recipe = Recipe(max_steps=20, learning_rate=rate, method="all")
        return ask(runner, examples=EXAMPLES, recipe=recipe).report["warnings"]

    (warning,) = warnings_at(1.0)
    said = r"the loss rose from .* to .* in step \d+: steps of a learning rate of 1 are too long"
    assert re.match(said, warning)
    assert warning.endswith("Send a lower `learning_rate`, 0.1 say")
    assert warnings_at(1.0) == [warning]  # of the known adaptation too
    assert warnings_at(0.001) == []


def test_more_than_five_cut_texts_are_counted(fixed):
    (warning,) = ask(fixed, inputs=["abcde"] * 7).report["warnings"]
    assert warning.endswith(": 1, 2, 3, 4, 5 and 2 more")


@pytest.mark.parametrize(
    "values", [{"inputs": ["abcd"]}, {"examples": "text,label\na,low\na,high\n"}]
)
def test_a_strict_request_refuses_what_is_otherwise_said(fixed, values):
    with pytest.raises(InputError, match="leave `strict` out to get it in the report"):
        ask(fixed, strict=True, **values)
    assert ask(fixed, **values).report["warnings"]


def test_adapters_belong_to_the_owner_that_a_server_vouches_for(runner):
    runner.read_owner_from("owner")
    done = ask(runner, examples=EXAMPLES, owner="ann")
    assert ask(runner, adapter=done.adapter, owner="ann").adapter == done.adapter
    for owner in ("bob", None):
        with pytest.raises(InputError, match="is not known here"):
            ask(runner, adapter=done.adapter, owner=owner)


def test_under_plain_cog_a_callers_own_word_for_the_owner_counts_for_nothing(runner):
    done = ask(runner, examples=EXAMPLES, owner="ann")
    assert ask(runner, adapter=done.adapter, owner="bob").adapter == done.adapter


def test_a_stream_gives_pieces_and_records_adapter_and_report(fixed):
    recorded: dict[Any, Any] = {}
    pieces = streamed(fixed, recorded.__setitem__, examples=EXAMPLES, options=Shouting(3))
    assert pieces == ["piece 0", "piece 1", "piece 2"]
    report = recorded["adaptation.report"]
    assert report["steps"] == 3
    assert report["stored"] is True
    assert fixed.store.get(recorded["adaptation.adapter"]).labels == ("low", "high")


def test_a_stream_of_the_base_records_no_adapter(fixed):
    recorded: dict[Any, Any] = {}
    assert streamed(fixed, recorded.__setitem__) == ["piece 0"]
    assert recorded == {}
    streamed(fixed, recorded.__setitem__, inputs=["abcd"])
    assert [*recorded] == ["adaptation.report"]


def test_a_task_without_a_stream_says_so(runner):
    with pytest.raises(InputError, match="Letters gives no stream"):
        streamed(runner, labels=["low", "high"])


def test_a_request_waits_for_the_running_tick_of_an_adaptation_alone(runner):
    """The cut inputs are looked for, and the answer is made, between the same two ticks."""
    begun, gate = [], threading.Semaphore(0)

    def adapting():
        for number in range(5):
            begun.append(number)
            gate.acquire()
            yield number

    async def story():
        scheduler = runner.scheduler
        ticket = scheduler.submit_long(adapting())
        await until(lambda: begun)
        asking = asyncio.create_task(answer(runner, Request(TEXTS, ("low", "high"))))
        await until(lambda: len(scheduler) == 2)
        gate.release()
        answered = await asyncio.wait_for(asking, 10)
        assert len(answered.predictions) == len(TEXTS)
        assert begun in ([0], [0, 1])
        gate.release(4)
        await ticket.wait_async()

    try:
        asyncio.run(story())
    finally:
        gate.release(9)


def test_equal_bits_that_nobody_promises_are_refused_before_anything_is_learnt(runner, monkeypatch):
    def refuse(_):
        raise InputError("not without DETERMINISTIC=1")

    monkeypatch.setattr(few_shot, "require_repeatable", refuse)
    monkeypatch.setattr(few_shot, "read_request_examples", lambda *_: pytest.fail("it went on"))
    with pytest.raises(InputError, match="DETERMINISTIC=1"):
        ask(runner, deterministic=True)
