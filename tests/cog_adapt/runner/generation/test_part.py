"""Answers grow a token at a tick, with others' in one forward where they may."""

import random

import pytest

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.growing import AnswerPiece
from cog_adapt.runner.inference.growing_memory import CacheNeeded
from tests.cog_adapt.growing import Length, adapter, loaded


def began(model, *queries):
    """Answers that have read their inputs, with their work."""
    found = []
    for query in queries:
        part = model.predictions.growing(query)
        work = part.working()
        while not part.ready:
            next(work)
        found.append((part, work))
    return found


def text(part):
    return part.generation.made


def alone(model, query):
    part = model.predictions.growing(query)
    pieces = [made.piece for made in part.working() if isinstance(made, AnswerPiece)]
    assert "".join(pieces) == text(part)
    return text(part)


def ran(work):
    """What work yields, and what it returns."""
    seen = []

    def whole():
        seen.append((yield from work))

    yielded = [*whole()]
    return yielded, seen[0]


def forwards(model, query):
    """The rows of each forward of the module that answers a query."""
    return model.predictions.modules.ready(query).module.rows


def test_an_answer_says_what_it_needs_before_its_first_forward_and_what_it_took_at_its_end():
    model = loaded()
    part = model.predictions.growing(Query(["abc"], options=Length(4)))
    seen, took = ran(part.working())
    assert seen[0] == CacheNeeded(400)
    assert [made.piece for made in seen if isinstance(made, AnswerPiece)] == [*text(part)]
    assert took.pop("seconds_to_first_token") >= 0
    assert took == {"letters": 4}
    assert part.generation.closed == 1


def test_answers_of_the_base_and_of_several_adapters_get_their_tokens_in_one_forward():
    model = loaded()
    queries = [Query(["word"], adapter(model, n)) for n in range(4)] + [Query(["base"])]
    expected = [alone(model, query) for query in queries]
    assert len(set(expected)) > 2
    (first, _), *others = began(model, *queries)
    before = [len(forwards(model, query)) for query in queries]
    first.run_with([part for part, _ in others])  # compared with each adapter's own module
    assert [len(forwards(model, query)) - n for query, n in zip(queries, before, strict=True)] == [
        1
    ] * 5
    while not first.done:
        shares = first.run_with([part for part, _ in others])
        assert sum(share for _, share in shares) == pytest.approx(1)
        assert {part for part, _ in shares} == {first, *(part for part, _ in others)}
    assert [text(part) for part in (first, *(part for part, _ in others))] == expected
    (replica,) = model.predictions.shared.replicas.values()
    assert {*replica.rows} == {5}


def test_answers_of_one_adapter_share_its_own_module():
    model = loaded()
    same = adapter(model, 1)
    queries = [Query([word], same) for word in ("ab", "cdef", "x")]
    expected = [alone(model, query) for query in queries]
    (first, _), *others = began(model, *queries)
    forwards(model, queries[0]).clear()
    while not first.done:
        first.run_with([part for part, _ in others])
    assert {*forwards(model, queries[0])} == {3}
    assert [text(part) for part in (first, *(part for part, _ in others))] == expected
    assert not model.predictions.shared.replicas


def test_random_mixes_answer_as_each_would_alone():
    model = loaded(served_adapters=4)
    draw = random.Random(0)
    adapters = [None, *(adapter(model, n, rank=2 + 2 * (n % 2)) for n in range(6))]
    for _ in range(40):
        queries = [
            Query(
                ["".join(draw.choices("abcdef", k=draw.randint(1, 5)))],
                draw.choice(adapters),
                options=Length(draw.randint(2, 8)),
            )
            for _ in range(draw.randint(2, 6))
        ]
        expected = [alone(model, query) for query in queries]
        found = began(model, *queries)
        parts = [part for part, _ in found]
        while going := [part for part in parts if part.ready]:
            first = draw.choice(going)
            first.run_with([part for part in going if part is not first and draw.random() < 0.8])
        for part, work in found:  # the base, which made room for others
            while not part.done:
                next(work)
        assert [text(part) for part in parts] == expected


def test_answers_of_more_adapters_than_can_be_ready_grow_in_turns():
    model = loaded(served_adapters=2)
    queries = [Query(["word"], adapter(model, n)) for n in range(5)]
    expected = [alone(model, query) for query in queries]
    parts = [part for part, _ in began(model, *queries)]
    assert all(part.ready for part in parts)
    while going := [part for part in parts if not part.done]:
        shares = going[0].run_with(going[1:])
        assert len(shares) == min(2, len(going))
        parts.sort(key=lambda part: len(text(part)))
    parts.sort(key=lambda part: part.number)
    assert [text(part) for part in parts] == expected


def test_an_answer_that_cannot_go_on_fails_alone():
    model = loaded()
    (bad, work), (good, _) = began(model, Query(["aX"[:1]]), Query(["b"]))
    bad.generation.read = ["X"]
    bad.run_with([good])
    assert bad.done
    with pytest.raises(InputError, match="cannot be gone on with"):
        next(work)
    assert bad.generation.closed == 1
    assert len(text(good)) == 2


def test_a_shared_forward_that_fails_leaves_each_to_grow_alone(monkeypatch, caplog):
    model = loaded()
    queries = [Query(["a"], adapter(model, n)) for n in range(2)]
    expected = [alone(model, query) for query in queries]
    (first, work), (other, other_work) = began(model, *queries)
    task = model.task
    whole = type(task).next_logits

    def failing(self, module, generations):
        if len(generations) > 1:
            raise RuntimeError("a kernel failed")
        return whole(self, module, generations)

    monkeypatch.setattr(type(task), "next_logits", failing)
    first.run_with([other])
    assert [first.ready, other.ready] == [False, False]
    assert "its answers grow alone" in caplog.text
    for rest in (work, other_work):
        list(rest)
    assert [text(first), text(other)] == expected


def test_a_repeatable_answer_joins_nobody():
    model = loaded()
    part = model.predictions.growing(Query(["abc"], deterministic=True))
    work = part.working()
    for _ in range(6):
        next(work)
        assert not part.ready


def test_one_answer_has_one_input():
    with pytest.raises(InputError, match="2 inputs for one answer"):
        loaded().predictions.growing(Query(["a", "b"]))
