"""Queries are answered some inputs a tick, with others' in one forward where they may."""

import random
from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.errors import InputError, PredictionError, WeightsError
from cog_adapt.runner.inference import served_adapters
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.prediction_part import PredictionPart
from cog_adapt.runner.inference.sharing import FIRST_PAUSE
from cog_adapt.runner.inference.together import TOLERANCE
from gradient_check.phases.precision import Precision
from gradient_check.tests.present import present
from tests.cog_adapt.mixed import Mixed, adapter, loaded


def ready(model, *queries):
    parts = [model.predictions.part(query) for query in queries]
    for part in parts:
        finished(model.predictions.modules.serving(part.query))
    return parts


def alone(model, query):
    return finished(model.predictions.part(query).working())


def word(draw):
    return "".join(draw.choices("abcdefgh", k=draw.randint(1, 12)))


def assert_like(answers, expected):
    torch.testing.assert_close(
        [torch.tensor(row) for row in answers],
        [torch.tensor(row) for row in expected],
        rtol=0,
        atol=TOLERANCE * max(1.0, *(abs(v) for row in expected for v in row)),
    )


def test_queries_of_several_adapters_and_of_the_base_are_answered_in_one_forward():
    model = loaded()
    queries = [Query([f"word{n}", "a"], adapter(model, n, labels=2 + n)) for n in range(4)]
    queries.append(Query(["base"], None, ("x", "y", "z")))
    first, *others = ready(model, *queries)
    shares = first.run_with(others)
    assert [part for part, _ in shares] == [first, *others]
    assert sum(share for _, share in shares) == pytest.approx(1)
    assert all(part.done for part in (first, *others))
    for part in (first, *others):
        assert_like(part.answers, alone(model, part.query))


def waiting(model, *queries):
    """Parts of adapters that are not ready."""
    return [model.predictions.part(query) for query in queries]


def test_adapters_that_are_not_ready_join_a_forward_without_a_module_of_their_own(monkeypatch):
    model = loaded()
    queries = [Query([f"word{n}", "a"], adapter(model, n, labels=2 + n)) for n in range(4)]
    expected = [alone(model, query) for query in queries]
    first, *others = ready(model, *queries[:2])
    first.run_with(others)  # compared with each adapter's own module; the next one is not
    for query in queries:
        model.predictions.modules.served.forget(present(query.adapter).id)

    def never(*_):
        pytest.fail("a module was made")

    monkeypatch.setattr(served_adapters, "serving_replica", never)
    first, *others = waiting(model, *queries)
    assert {part for part, _ in first.run_with(others)} == {first, *others}
    for part, rows in zip((first, *others), expected, strict=True):
        assert_like(part.answers, rows)


def test_no_more_adapters_join_than_can_be_ready_at_once():
    model = loaded(served_adapters=3)
    first, *others = waiting(model, *(Query([f"word{n}"], adapter(model, n)) for n in range(5)))
    assert [part for part, _ in first.run_with(others)] == [first, *others[:2]]
    assert len(model.predictions.modules.served) == 3


@pytest.mark.parametrize("bad_first", [False, True])
def test_an_adapter_that_does_not_fit_fails_its_own_query_alone(bad_first):
    model = loaded()
    good, bad = waiting(
        model,
        Query(["abc"], adapter(model, 1)),
        Query(["abc"], replace(adapter(model, 2), base="0" * 16)),
    )
    first, second = (bad, good) if bad_first else (good, bad)
    assert [part for part, _ in first.run_with([second])] == [first]
    assert (good.done, bad.ready) == (not bad_first, False)
    with pytest.raises(WeightsError, match="was made on base"):
        finished(bad.working())
    (later,) = waiting(model, Query(["de"], adapter(model, 3)))
    assert later.ready  # sharing does not pause


def test_no_adapter_joins_once_the_base_has_changed():
    model = loaded()
    (part,) = waiting(model, Query(["abc"], adapter(model, 1)))
    assert part.ready
    model.base.damage = ("a weight",)
    assert not part.ready


def test_pauses_are_counted_though_no_adapter_was_ready():
    model = loaded()
    first, second = waiting(model, *(Query(["abc"], adapter(model, n)) for n in range(2)))
    structure = first.structure
    first.ticks.shared.note_failure(structure, 2, RuntimeError("a kernel failed"))
    for number in range(FIRST_PAUSE):
        assert not second.ready
        alone(model, Query(["abc"], adapter(model, 2 + number % 20)))
    assert second.ready


def test_thousands_of_random_mixes_answer_as_each_would_alone():
    """Adapters of several structures, ready or not, evicted at random, and callers who leave."""
    model = loaded(served_adapters=6, batch_size=16)
    draw = random.Random(0)
    adapters = [adapter(model, n, labels=draw.randint(2, 6), rank=r) for n, r in enumerate(RANKS)]
    checked = shared = 0
    for _ in range(600):
        queries = []
        for _ in range(draw.randint(2, 6)):
            texts = [word(draw) for _ in range(draw.randint(1, 4))]
            names = tuple(f"name {n}" for n in range(draw.randint(2, 4)))
            chosen = draw.choice([None, *adapters])
            queries.append(Query(texts, chosen, () if chosen else names, owner=draw.choice("ab")))
        parts = [draw.choice([ready, waiting])(model, query)[0] for query in queries]
        parts = [part for part in parts if part.ready]
        if draw.random() < 0.2:
            model.predictions.modules.served.forget(draw.choice(adapters).id)
        parts = [part for part in parts if part.ready and draw.random() < 0.9]
        if len(parts) < 2:
            continue
        shared += len(parts[0].run_with(parts[1:])) > 1
        for part in parts:
            assert_like(finished(part.working()), alone(model, part.query))
            checked += 1
    assert checked > 1_000
    assert shared > 300


RANKS = (2, 2, 2, 2, 3, 3, 0, 0)


def test_what_is_not_finite_stays_with_its_own_adapter():
    model = loaded()
    good = Query(["abc", "de"], adapter(model, 1))
    bad = adapter(model, 2)
    for tensor in bad.tensors.values():
        tensor.fill_(3e38)  # finite, so it is taken; what it makes is not
    first, second = ready(model, good, Query(["fgh"], bad))
    assert len(first.run_with([second])) == 2
    assert_like(first.answers, alone(model, good))
    assert not torch.tensor(second.answers).isfinite().any()


def test_pairs_of_another_scale_or_rank_do_not_join():
    model = loaded()
    scales = {"attention.query": 0.5, "attention.value": 0.5}
    queries = [
        Query(["abc"], adapter(model, 1)),
        Query(["abc"], adapter(model, 2, scales=scales)),
        Query(["abc"], adapter(model, 3, rank=3)),
        Query(["abc"], adapter(model, 4, rank=0)),
    ]
    first, *others = ready(model, *queries)
    assert [part for part, _ in first.run_with(others)] == [first, others[-1]]


def test_adapters_of_other_methods_run_alone():
    model = loaded()
    norms = adapter(model, 1, tensors={"norm.weight": torch.ones(8) * 2})
    (part,) = ready(model, Query(["abc"], norms))
    assert not part.ready


def test_a_deterministic_query_runs_alone_in_ticks_that_its_inputs_decide():
    model = loaded(device="cpu")  # a CUDA device promises by a setting
    texts = ["abcdefgh" * 20] * 10
    query = Query(texts, adapter(model, 1), deterministic=True)
    (part,) = ready(model, query)
    assert not part.ready
    before = alone(model, query)
    part.ticks.pace.record(1, 10.0)  # as if the machine had become slow
    part = model.predictions.part(query)
    assert len([*part.working()]) == 3  # 512 of 1,600 tokens a tick, or 3 texts
    assert part.answers == before


def be_slow(part):
    for _ in range(64):  # more than are remembered
        part.ticks.pace.record(10_000, 1.0)


def test_a_long_query_is_cut_into_ticks_of_like_length_and_keeps_its_order():
    model = loaded()
    draw = random.Random(1)
    texts = [word(draw) * 10 for _ in range(40)]
    whole = alone(model, Query(texts, adapter(model, 1)))
    part = model.predictions.part(Query(texts, adapter(model, 1)))
    work, ticks = part.working(), 0
    be_slow(part)
    for _ in work:
        ticks += 1
        be_slow(part)
    assert ticks >= 2
    assert_like(part.answers, whole)


class Picky(Mixed):
    def encode(self, inputs):
        if "bad" in inputs:
            raise InputError("no such word")
        return super().encode(inputs)


def test_one_bad_input_fails_its_own_query_alone():
    model = loaded(Picky())
    good, bad = ready(model, Query(["abc"], adapter(model, 1)), Query(["bad"], adapter(model, 2)))
    shares = good.run_with([bad])
    assert {part for part, _ in shares} == {good, bad}
    assert not any([good.ready, bad.ready, good.done, bad.done])
    assert finished(good.working()) == alone(model, good.query)
    with pytest.raises(InputError, match="no such word"):
        finished(bad.working())
    again, other = ready(model, good.query, Query(["xyz"], adapter(model, 3)))
    assert len(again.run_with([other])) == 2
    assert again.done


class Silent(Mixed):
    """Its model sorts rows and does not say so."""

    def load(self):
        module = super().load()
        module.__class__ = type("Reversing", (type(module),), {"forward": _reversing})
        return module


def _reversing(module, batch):
    flipped = {name: tensor.flip(0) for name, tensor in batch.items()}
    return module.head(module.mean(flipped).flip(0))


def test_a_model_that_moves_rows_in_silence_is_found_out_and_never_shared_again(caplog):
    model = loaded(Silent())
    one, two = ready(model, Query(["abc"], adapter(model, 1)), Query(["xy"], adapter(model, 2)))
    one.run_with([two])
    assert "other rows than the adapter's own module" in caplog.text
    assert not any([one.ready, two.ready])
    for part in (one, two):
        assert finished(part.working()) == alone(model, part.query)
    (later,) = ready(model, Query(["abc"], adapter(model, 5)))
    assert not later.ready


class Failing(Mixed):
    """Its forward raises `error`, when there is one, for more rows than `most`."""

    error: Exception | None = None
    most = 1

    def load(self):
        module = super().load()
        task, forward = self, type(module).forward

        def failing(module, batch):
            if task.error is not None and len(batch["ids"]) > task.most:
                raise task.error
            return forward(module, batch)

        module.__class__ = type("Failing", (type(module),), {"forward": failing})
        return module


def pair(model, number):
    """Two queries of one word each, by two adapters that are ready."""
    adapters = adapter(model, 1), adapter(model, 2)
    return ready(model, *(Query([f"word{number}"], made) for made in adapters))


def test_a_failed_forward_answers_its_queries_alone_and_sharing_comes_back(caplog):
    task = Failing()
    model = loaded(task)
    expected = alone(model, Query(["word0"], adapter(model, 1)))
    task.error = RuntimeError("a kernel failed")
    one, two = pair(model, 0)
    one.run_with([two])
    assert finished(one.working()) == expected
    assert finished(two.working())
    assert f"sharing pauses for {FIRST_PAUSE} forwards" in caplog.text
    task.error = None
    for number in range(2, FIRST_PAUSE):  # two have run
        (part,) = ready(model, Query(["abc"], adapter(model, number % 4)))
        assert not part.ready
        finished(part.working())
    one, two = pair(model, 0)
    assert len(one.run_with([two])) == 2
    assert_like(one.answers, expected)


def test_memory_that_runs_out_halves_the_rows_and_sharing_goes_on():
    task = Failing()
    model = loaded(task)
    task.error, task.most = torch.OutOfMemoryError("CUDA out of memory"), 4
    queries = [Query([f"word{n}"], adapter(model, n)) for n in range(8)]
    parts = ready(model, *queries)
    parts[0].run_with(parts[1:])
    assert not any(part.ready for part in parts)
    for part in parts:
        assert finished(part.working())
    first, *others = ready(model, *queries)
    assert len(first.run_with(others)) == 4
    assert first.done


def test_options_of_another_class_are_refused_when_the_query_is_made():
    model = loaded()
    with pytest.raises(InputError, match="options are dict"):
        model.predictions.part(Query(["a"], options={}))


def test_a_tick_takes_the_rows_that_fit_and_leaves_the_others():
    model = loaded(batch_size=4)
    first, second = ready(
        model, Query(["abc"] * 5, adapter(model, 1)), Query(["de"] * 3, adapter(model, 2))
    )
    first.run_with([second])
    assert (len(first.waiting), len(second.waiting)) == (1, 3)
    second.run_with([first])
    assert (len(first.waiting), len(second.waiting)) == (0, 0)
    assert_like(first.answers, alone(model, first.query))
    assert_like(second.answers, alone(model, second.query))


def test_what_ends_in_a_tick_does_not_wait_for_what_goes_on_after_it():
    model = loaded(batch_size=4)
    first, long, short = ready(
        model,
        Query(["abc"], adapter(model, 1)),
        Query(["de"] * 8, adapter(model, 2)),
        Query(["f"], adapter(model, 3)),
    )
    first.run_with([short, long])
    assert first.done
    assert short.done
    assert len(long.waiting) == 8


def test_the_same_bits_are_refused_where_nobody_promises_them():
    model = loaded()
    precision = Precision(torch.device("cuda", 0))
    phase = replace(model.predictions.phase, precision=precision)
    ticks = replace(model.predictions.part(Query(["a"])).ticks, phase=phase)
    PredictionPart(ticks, Query(["a"]))
    with pytest.raises(InputError, match="on cuda:0 without DETERMINISTIC=1"):
        PredictionPart(ticks, Query(["a"], deterministic=True))


def test_memory_that_runs_out_in_a_prediction_is_told_and_the_model_goes_on(monkeypatch):
    model = loaded()
    query = Query(["abc"], adapter(model, 1))
    before = alone(model, query)

    def hungry(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    with monkeypatch.context() as patched:
        patched.setattr(Mixed, "predict", hungry)
        with pytest.raises(PredictionError, match=r"memory ran out in a prediction: .*BATCH_SIZE"):
            finished(model.predictions.part(query).working())
    assert alone(model, query) == before
