"""Whatever a caller sends is bounded before it is decoded or tokenized, and nobody waits for that.

Characters, and what decoding takes, are counted before a function of the task sees an input on the
model thread; what is decoded there is one input at a time, on a thread of its own.
"""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.memory_estimate import MemoryEstimates, Needed
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError, UnavailableError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.model.input_decoder import AT_ONCE
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer, stream
from cog_adapt.runner.requests.training import train
from cog_adapt.runner.task.decoding import Decoded
from cog_adapt.runner.task.input_sizes import MOST_CHARACTERS, PAIR_CHARACTERS, TICK_CHARACTERS
from cog_adapt.runner.task.task import Task
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Letters
from tests.cog_adapt.texts import Texts
from tests.cog_adapt.waiting import until, wait_until

FEW = Recipe(method="all", max_steps=2, batch_size=4)
LONGEST = Letters.max_characters


class Tokenized(Letters):
    """Texts, and what a tokenizer was given of them: the characters of each call."""

    def __init__(self):
        self.calls = []

    def encode(self, inputs):
        self.calls.append(sum(map(len, inputs)))
        return super().encode(inputs)

    def shortened(self, inputs):
        self.calls.append(sum(map(len, inputs)))
        return ()


class Sealed(Letters):
    """Inputs `sealed:TEXT` or `sealed:TEXT:COST`; decoding one gives its text.

    Decoding stops at what begins with `held` until `go` is set.
    """

    max_decoding = 1_000

    def __init__(self):
        self.decoded, self.threads, self.seen = [], set(), []
        self.held, self.go = threading.Event(), threading.Event()

    def decoding_cost(self, value):
        return int(parts[2]) if len(parts := value.split(":")) > 2 else 1

    def decode_input(self, value):
        self.threads.add(threading.current_thread().name)
        if ":held" in value:
            self.held.set()
            assert self.go.wait(20)
        if ":broken" in value:
            raise InputError("the seal is broken. Send another.")
        self.decoded.append(value)
        self.seen.append("decoded")
        return value.split(":")[1]

    def encode(self, inputs):
        assert not [each for each in inputs if each.startswith("sealed")]
        return super().encode(inputs)

    def predict(self, module, batch, labels, options):
        self.seen.append("answered")
        return super().predict(module, batch, labels, options)

    def shortened(self, inputs):
        return ()

    def generate(self, module, batch, options):
        yield "piece"

    def probe(self):
        return [Example("sealed:abc", "low"), Example("sealed:xyz", "high")]


class QuickSealed(Sealed):
    """Sealed inputs that are decoded quickly, unless they begin with `held`."""

    def decodes_quickly(self, value):
        return ":held" not in value


def sealed(count, name="low", word="a"):
    """Rows of examples, one label's."""
    return [{"input": f"sealed:{word}{chr(97 + n)}", "target": name} for n in range(count)]


ROWS = sealed(3, "low", "a") + sealed(3, "high", "y")


@pytest.fixture
def settings(tmp_path):
    return RunnerSettings(device=DEVICE, weights_dir=tmp_path)


def runner_of(task, settings):
    runner = ModelRunner(task, settings)
    runner.read_owner_from("owner")
    return runner


def asked(runner, owner="", **what):
    scope = SimpleNamespace(context={"owner": owner}, record_metric=lambda *_: None)
    given: dict[str, Any] = {"recipe": FEW, "labels": ("low", "high")} | what
    return answer(runner, Request(**given), scope)


@pytest.fixture
def texts(settings):
    with runner_of(Tokenized(), settings) as runner:
        runner.task.calls.clear()
        yield runner


@pytest.fixture
def seals(settings):
    with runner_of(Sealed(), settings) as runner:
        yield runner
        runner.task.go.set()


LONG: dict[str, Any] = {
    "one input": (
        ["ab", "a" * (LONGEST + 1)],
        f"input 2 has {LONGEST + 1:,} characters; .* {LONGEST:,}",
    ),
    "all inputs": (["a" * LONGEST] * 257, f"4,210,688 characters .* may have {MOST_CHARACTERS:,}"),
    "nested": ([[{"content": "a" * LONGEST}, "bc"]], "input 1 has 16,3.. characters"),
}


@pytest.mark.parametrize("name", LONG)
def test_what_is_too_long_is_never_given_to_a_tokenizer(texts, name):
    inputs, said = LONG[name]
    with pytest.raises(InputError, match=said):
        asyncio.run(asked(texts, inputs=inputs))
    with pytest.raises(InputError, match=said):
        texts.predict(inputs, labels=("low", "high"))
    with pytest.raises(InputError, match=said):
        asyncio.run(train(texts, Request(inputs=inputs, examples=[{"input": "a", "target": "b"}])))
    assert texts.task.calls == []


async def drained(stream):
    return [piece async for piece in stream]


def test_a_stream_refuses_what_is_too_long(texts):
    with pytest.raises(InputError, match=LONG["one input"][1]):
        asyncio.run(drained(stream(texts, Request(LONG["one input"][0], ("low", "high")))))
    assert texts.task.calls == []


@pytest.mark.parametrize("place", ["input", "target"])
def test_an_example_that_is_too_long_is_refused_by_its_row(texts, place):
    rows = [{"input": "aa", "target": "low"}, {"input": "ya", "target": "high"}]
    rows[1][place] = "a" * (LONGEST + 1)
    with pytest.raises(InputError, match=f"row 2: the {place} has 16,385 characters.* 16,384"):
        asyncio.run(asked(texts, inputs=["ab"], labels=(), examples=rows))
    assert texts.task.calls == []


def test_a_long_name_of_a_label_is_refused_in_examples_too(texts):
    rows = [{"input": "aa", "target": "l" * 201}, {"input": "ya", "target": "high"}]
    with pytest.raises(InputError, match="has 201 characters; the limit is 200"):
        asyncio.run(asked(texts, inputs=["ab"], labels=(), examples=rows))
    assert texts.task.calls == []


def test_a_tick_tokenizes_so_many_characters_of_requests_and_examples(texts):
    inputs = ["a" * 3_000] * 8
    rows = [{"input": letter * 3_000, "target": name} for letter in "ab" for name in ("low", "hi")]
    asyncio.run(asked(texts, inputs=inputs))
    asyncio.run(asked(texts, inputs=inputs, labels=(), examples=rows))
    assert max(texts.task.calls) <= TICK_CHARACTERS
    assert sum(texts.task.calls) > 4 * sum(map(len, inputs))  # both were looked at and answered


def test_a_text_longer_than_a_tick_is_tokenized_alone(texts):
    asyncio.run(asked(texts, inputs=["a" * 3_000, "b" * 16_000, "c" * 3_000]))
    assert {*texts.task.calls} <= {3_000, 6_000, 16_000}


def test_an_adaptation_encodes_a_batch_in_several_ticks(settings):
    task = Tokenized()
    model = LoadedModel(task, settings)
    rows = [Example(chr(97 + n) * 2_000, ("low", "high")[n % 2]) for n in range(12)]
    start = model.start(rows, FEW)
    task.calls.clear()
    work, ticks = EncodedExamples(start).encoding(range(12), 12), []
    for _ in work:
        ticks.append(sum(task.calls))
        task.calls.clear()
    ticks.append(sum(task.calls))
    assert ticks == [8_000, 8_000, 8_000]


def test_no_tick_of_a_step_tokenizes_a_whole_batch(settings):
    task = Tokenized()
    model = LoadedModel(task, settings)
    rows = [Example(chr(97 + n) * 2_000, ("low", "high")[n % 2]) for n in range(12)]
    ticks = []
    for _ in model.adapting(rows, Recipe(method="all", max_steps=1, batch_size=12)):
        ticks.append(sum(task.calls))
        task.calls.clear()
    assert max(ticks) <= 2 * TICK_CHARACTERS  # with the few that show how they are padded


class Unjoined(Tokenized):
    """Rows that are encoded otherwise together than alone, so that none of them is kept."""

    def encode(self, inputs):
        batch = super().encode(inputs)
        together = torch.full((len(inputs), 1), float(len(inputs)))
        return {**batch, "together": together}

    def loss(self, module, batch, targets):
        return super().loss(module, {"ids": batch["ids"]}, targets)

    def predict(self, module, batch, labels, options):
        return super().predict(module, {"ids": batch["ids"]}, labels, options)


@pytest.mark.parametrize("length", [500, 2_000, LONGEST])
def test_rows_that_cannot_be_joined_are_encoded_a_tick_at_a_time(settings, length):
    task = Unjoined()
    model = LoadedModel(task, settings)
    rows = [Example(chr(97 + n) * length, ("low", "high")[n % 2]) for n in range(24)]
    ticks = []
    for _ in model.adapting(rows, Recipe(method="all", max_steps=3, batch_size=24)):
        ticks.append(sum(task.calls))
        task.calls.clear()
    assert sum(ticks) >= 3 * sum(len(row.input) for row in rows)  # at each step anew
    assert max(ticks) <= PAIR_CHARACTERS


LENGTHS = {
    "all longest": [LONGEST] * 12,
    "one short": [LONGEST] * 11 + [20],
    "short ones first": [20] * 6 + [LONGEST] * 6,
    "none fits beside another": [9_000 + 100 * n for n in range(12)],
    "all kinds": [20, 4_000, 9_000, LONGEST] * 3,
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("recipe", [{"method": "all"}, {"blocks": 1, "max_steps": 30}], ids=str)
def test_two_rows_are_tokenized_in_a_tick_only_where_there_is_time(settings, recipe, lengths):
    class Blocks(Tokenized):
        blocks = r"blocks\.\d+"

    task = Blocks()
    model = LoadedModel(task, settings)
    rows = [Example(chr(97 + n) * size, ("low", "high")[n % 2]) for n, size in enumerate(lengths)]
    ticks = []
    recipe = Recipe(**{"max_steps": 4, "batch_size": 4, "checkpointing": False, **recipe})
    for _ in model.adapting(rows, recipe):
        ticks.append(sum(task.calls))
        task.calls.clear()
    assert max(ticks) <= PAIR_CHARACTERS


class Cut(Texts):
    """Texts of which a tokenizer keeps one letter of a hundred."""

    part_tokens = 256

    def __init__(self):
        super().__init__()
        self.calls = []

    def encode(self, inputs):
        self.calls.append(sum(map(len, inputs)))
        return super().encode([each[: max(1, len(each) // 100)] for each in inputs])


RAGGED = {
    "alike first": [14_000] * 4 + [15_000, 14_000, 13_000, 3_000],
    "two short ones that are not tried": [15_000, 14_000, 3_000, 13_000, 2_000, 16_000],
}


@pytest.mark.parametrize("lengths", RAGGED.values(), ids=RAGGED)
def test_texts_of_unequal_tokens_are_compared_where_there_is_time(settings, lengths):
    task = Cut()
    model = LoadedModel(task, settings)
    rows = [Example(chr(97 + n) * size, ("low", "high")[n % 2]) for n, size in enumerate(lengths)]
    ticks = []
    for _ in model.adapting(rows, Recipe(method="all", max_steps=6, batch_size=4)):
        ticks.append(sum(task.calls))
        task.calls.clear()
    assert max(ticks) <= PAIR_CHARACTERS


def test_the_longest_input_of_a_task_that_says_nothing_is_bounded():
    assert Task.max_characters <= 2 * TICK_CHARACTERS


def test_names_of_labels_are_tokenized_a_tick_at_a_time(settings):
    class Names(Letters):
        calls: list[int] = []

        def start(self, module, labels, examples):
            self.calls.append(sum(map(len, labels)))
            return super().start(module, labels, examples)

    names = [f"{n:03}" + "x" * 197 for n in range(200)]
    big = RunnerSettings(device=DEVICE, weights_dir=settings.weights_dir, batch_size=512)
    with ModelRunner(Names(), big) as runner:
        Names.calls.clear()
        runner.predict(["ab"], labels=names)
    assert sum(Names.calls) >= 40_000
    assert max(Names.calls) <= TICK_CHARACTERS


def test_inputs_and_examples_are_decoded_once_and_off_the_model_thread(seals):
    inputs = ["sealed:ab", "sealed:yc"]
    seals.task.decoded.clear()
    seals.task.threads.clear()
    done = asyncio.run(asked(seals, inputs=inputs, labels=(), examples=ROWS))
    assert sorted(seals.task.decoded) == sorted([*inputs, *(row["input"] for row in ROWS)])
    assert seals.task.threads == {"decode"}
    same = seals.predict(inputs, labels=("low", "high"))
    assert done.before == same
    assert seals.adapt([Example("sealed:a", "low"), Example("sealed:y", "high")], FEW).adapter
    assert seals.task.threads == {"decode"}


def test_an_adaptation_is_known_by_what_was_sent(seals):
    first = asyncio.run(asked(seals, inputs=["sealed:ab"], labels=(), examples=ROWS))
    seals.task.decoded.clear()
    again = asyncio.run(asked(seals, inputs=["sealed:ab"], labels=(), examples=ROWS))
    assert (first.report["known"], again.report["known"]) == (False, True)
    assert again.adapter == first.adapter
    assert seals.task.decoded == ["sealed:ab"]


def test_features_are_known_by_what_was_sent():
    assert input_digests([Decoded("sent", "other")]) == input_digests(["sent"])


def test_others_are_answered_while_one_request_is_decoded(seals):
    task = seals.task

    async def both():
        hostile = Query([f"sealed:held{n}" for n in range(20)], labels=("low", "high"), owner="a")
        waiting = asyncio.ensure_future(seals.decoded_async(hostile))
        await until(task.held.is_set)
        await seals.shortened_async(["ab"], "b")  # the model thread is free
        query = Query(["sealed:ab"], labels=("low", "high"), owner="b")
        innocent = asyncio.ensure_future(seals.decoded_async(query))
        await asyncio.sleep(0)  # it is in the queue
        task.go.set()
        assert await seals.predict_async(await innocent)
        await waiting

    task.decoded.clear()
    asyncio.run(both())
    assert task.decoded.index("sealed:ab") <= 2  # not after all of the other's


def test_an_adaptation_waits_for_its_examples_outside_the_model_thread(seals):
    task = seals.task
    rows = [*ROWS, {"input": "sealed:held", "target": "low"}]

    async def both():
        adapting = asyncio.ensure_future(asked(seals, "a", inputs=["sealed:ab"], examples=rows))
        await until(task.held.is_set)
        await seals.shortened_async(["ab"], "b")
        assert not adapting.done()
        task.go.set()
        return await adapting

    assert asyncio.run(both()).adapter


def test_what_is_decoded_quickly_does_not_wait_for_what_is_slow(settings):
    with runner_of(QuickSealed(), settings) as runner:
        task = runner.task

        async def both():
            mixed = Query(["sealed:ab", "sealed:held", "sealed:yc"], owner="a")
            waiting = asyncio.ensure_future(runner.decoded_async(mixed))
            await until(task.held.is_set)
            innocent = asked(runner, "b", inputs=["sealed:ab"], examples=ROWS)
            assert (await asyncio.wait_for(innocent, 20)).adapter
            assert not waiting.done()
            task.go.set()
            return await waiting

        decoded = asyncio.run(both())
        assert [each.value for each in decoded.inputs] == ["ab", "held", "yc"]
        assert task.decoded[-1] == "sealed:held"
        assert task.threads == {"decode", "decode-quick"}


def test_slow_examples_are_decoded_one_at_a_time_beside_quick_ones(settings):
    with runner_of(QuickSealed(), settings) as runner:
        runner.task.go.set()
        rows = [Example("sealed:helda", "low"), Example("sealed:y", "high")]
        assert runner.adapt(rows, FEW).adapter
        assert runner.task.threads == {"decode", "decode-quick"}
        assert len(runner.predict(["sealed:heldb", "sealed:yc"], labels=("low", "high"))) == 2
        assert sorted(runner.task.decoded[-4:]) == [
            *("sealed:helda", "sealed:heldb", "sealed:y", "sealed:yc"),
        ]


def test_who_leaves_frees_the_thread_that_decodes(seals):
    task = seals.task
    rows = [{"input": f"sealed:held{n}", "target": ("low", "high")[n % 2]} for n in range(20)]

    async def leave():
        adapting = asyncio.ensure_future(asked(seals, "a", inputs=["sealed:ab"], examples=rows))
        await until(task.held.is_set)
        adapting.cancel()
        await asyncio.gather(adapting, return_exceptions=True)

    asyncio.run(leave())
    task.decoded.clear()
    task.go.set()
    assert len(seals.predict(["sealed:yc"], labels=("low", "high"))) == 1
    wait_until(lambda: not seals.gauges()["adaptation_bytes"])
    assert len(task.decoded) <= 4
    assert seals.gauges()["adaptations_waiting"] == 0


def test_who_waits_for_a_runner_that_closes_is_told(settings):
    runner = runner_of(Sealed(), settings)
    failed, long = [], Recipe(max_steps=100_000)  # it may go on while `close` waits for a core

    def adapt():
        try:
            runner.adapt([Example("sealed:held", "low"), Example("sealed:y", "high")], long)
        except UnavailableError as error:
            failed.append(error)

    thread = threading.Thread(target=adapt)
    thread.start()
    assert runner.task.held.wait(20)
    closing = threading.Thread(target=runner.close)
    closing.start()
    runner.task.go.set()
    for each in (closing, thread):
        each.join(20)
    assert len(failed) == 1


BUDGETS: dict[str, Any] = {
    "input 2": ({"inputs": ["sealed:ab:600", "sealed:yc:500"]}, "1,100"),
    "example 2": (
        {
            "inputs": ["sealed:ab:100"],
            "labels": (),
            "examples": [
                {"input": "sealed:a:450", "target": "low"},
                {"input": "sealed:y:451", "target": "high"},
            ],
        },
        "1,001",
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_what_takes_too_long_is_refused_before_anything_is_decoded(seals, name):
    what, found = BUDGETS[name]
    seals.task.decoded.clear()
    said = f"up to {name} the request has {found} pixels; the limit is 1,000"
    with pytest.raises(InputError, match=said):
        asyncio.run(asked(seals, **what))
    assert seals.task.decoded == []


def test_python_calls_have_the_same_limit_of_decoding(seals):
    seals.task.decoded.clear()
    with pytest.raises(InputError, match="up to input 1"):
        seals.predict(["sealed:ab:1001"], labels=("low", "high"))
    with pytest.raises(InputError, match="up to example 1"):
        seals.adapt([Example("sealed:a:1001", "low"), Example("sealed:y", "high")], FEW)
    assert seals.task.decoded == []


def test_a_broken_one_is_named_by_its_number(seals):
    with pytest.raises(InputError, match="input 2: the seal is broken"):
        asyncio.run(asked(seals, inputs=["sealed:ab", "sealed:broken"]))
    rows = [*ROWS, {"input": "sealed:broken", "target": "low"}]
    with pytest.raises(InputError, match="example 7: the seal is broken"):
        asyncio.run(asked(seals, inputs=["sealed:ab"], examples=rows))


def test_what_a_decoded_input_holds_is_bounded_too(settings):
    class Zipped(Sealed):
        def decode_input(self, value):
            return "a" * 200_000 if value == "sealed:bomb" else super().decode_input(value)

    said = "input 1 has 200,000 characters when decoded"
    with ModelRunner(Zipped(), settings) as runner, pytest.raises(InputError, match=said):
        runner.predict(["sealed:bomb"], labels=("low", "high"))


def test_many_inputs_are_decoded_and_answered_in_portions(seals):
    inputs = [f"sealed:{chr(97 + n % 26)}" for n in range(2 * AT_ONCE + 6)]
    seals.predict(["sealed:ab"], labels=("low", "high"))
    seals.task.seen.clear()
    assert len(seals.predict(inputs, labels=("low", "high"))) == len(inputs)
    decoded = [len(part) for part in "".join(e[0] for e in seals.task.seen).split("a") if part]
    assert max(decoded) <= AT_ONCE
    assert sum(decoded) == len(inputs)
    with pytest.raises(InputError, match=f"70 inputs; at most {AT_ONCE}"):
        asyncio.run(drained(stream(seals, Request(inputs, ("low", "high")))))


def test_decoded_examples_count_in_the_memory_that_is_asked_for(settings):
    class Wide(Sealed):
        def decode_input(self, value):
            return super().decode_input(value).ljust(1_000)

    task = Wide()
    model = LoadedModel(task, settings)
    rows = [Example(f"sealed:{chr(97 + n)}", ("low", "high")[n % 2]) for n in range(10)]
    plain = MemoryEstimates().of(model.start(rows, FEW)).bytes
    needed = [each.bytes for each in model.adapting(rows, FEW) if isinstance(each, Needed)]
    assert needed == [plain + 10 * 1_000]
