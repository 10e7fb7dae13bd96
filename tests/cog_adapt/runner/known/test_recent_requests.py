"""What was read before is not parsed again, while its decision is there."""

import copy
import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import DEFAULT_LIMITS, parse_examples
from cog_adapt.runner.data.plain_values import LONG_TEXT
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.known.recent_requests import RecentRequest, RecentRequests, request_digest
from cog_adapt.runner.request import Request, read_request_examples
from cog_adapt.runner.requests import few_shot
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import EXAMPLES, Asker

ROWS = [{"text": "a", "label": "b"}]
LONG = "x" * (LONG_TEXT + 1)


@pytest.mark.parametrize(
    "other",
    [
        {"examples": [{"text": "a", "label": "c"}]},
        {"examples": json.dumps(ROWS)},
        {"labels": ["b", "c"]},
        {"recipe": Recipe(seed=1)},
        {"fresh": True},
    ],
)
def test_all_that_an_adaptation_depends_on_is_in_the_digest(other):
    values: dict[str, Any] = {"examples": ROWS}
    one = request_digest(Request(["x"], **values))
    assert one == request_digest(Request(["y"], strict=True, **values))
    assert one != request_digest(Request(["x"], **(values | other)))


@pytest.mark.parametrize(
    "other",
    [
        [{"text": f"{LONG}y", "label": "b"}],
        [{"text": "b", "label": LONG}],
        [{"text": [LONG], "label": "b"}],
        [{"text": None, "label": "b"}],
        [{"text": "", "label": "b"}],
        [{"text": hashlib.sha256(LONG.encode()).hexdigest(), "label": "b"}],
        [{"text": None, "label": "b"}, [["text"], hashlib.sha256(LONG.encode()).hexdigest()]],
        LONG,
    ],
)
def test_a_long_text_is_in_the_digest_with_its_place(other):
    long = [{"text": LONG, "label": "b"}]
    digest = request_digest(Request(["x"], examples=long))
    assert digest == request_digest(Request(["x"], examples=copy.deepcopy(long)))
    assert digest != request_digest(Request(["x"], examples=other))


def test_a_long_text_and_null_may_not_change_places():
    rows = [{"text": LONG, "label": None}], [{"text": None, "label": LONG}]
    one, other = (request_digest(Request(["x"], examples=each)) for each in rows)
    assert one
    assert one != other


def test_long_texts_are_not_encoded_as_json_in_one_call(monkeypatch):
    encoded: list[str] = []
    whole = json.dumps

    def dumps(value, **options):
        encoded.append(whole(value, **options))
        return encoded[-1]

    monkeypatch.setattr(json, "dumps", dumps)
    rows = [{"text": [{"parts": ["x" * 2**22, "é" * (LONG_TEXT + 1)]}], "label": "b"}] * 2
    assert request_digest(Request(["x"], examples=rows))
    with pytest.raises(InputError, match="take 8650"):
        parse_examples(rows, limits=replace(DEFAULT_LIMITS, max_total_bytes=2**22))
    assert encoded
    assert max(map(len, encoded)) < LONG_TEXT


def test_parts_that_lie_elsewhere_have_no_digest(tmp_path):
    lying: list[dict[str, Any]] = [
        {},
        {"examples": ROWS, "adapter": "a"},
        {"examples": ROWS, "weights": tmp_path},
        {"examples_file": tmp_path},
        {"examples": [{"text": {1}}]},
    ]
    for values in lying:
        assert request_digest(Request(["x"], **values)) is None


def test_they_are_bounded_and_an_owners_own():
    known, last = RecentRequests(), "1024"
    for number in range(1025):
        known.put("ann", str(number), RecentRequest(f"k{number}", (), ()))
    known.put("ann", None, RecentRequest("k", (), ()))
    assert len(known) == 1024
    assert known.get("ann", "0") is None
    assert known.get("bob", last) is None
    assert known.get("ann", None) is None
    known.forget("bob", f"k{last}")
    assert known.get("ann", last)
    known.forget("ann", f"k{last}")
    assert known.get("ann", last) is None


def test_the_same_request_is_not_parsed_again_and_says_the_same(make_runner, monkeypatch):
    class Cutting(Letters):
        def shortened(self, inputs):
            return [i for i, text in enumerate(inputs) if len(text) > 3]

    runner = make_runner(Cutting())
    sent = [{"text": text, "label": label} for text, label in (("aaaa", "low"), ("y", "high"))]
    first = Asker(runner).now(sent)
    parsed: list[int] = []

    def read(*args):
        parsed.append(1)
        return read_request_examples(*args)

    monkeypatch.setattr(few_shot, "read_request_examples", read)
    again = Asker(runner).now(sent)
    assert parsed == []
    assert (again.adapter, again.report) == (first.adapter, first.report | {"known": True})
    assert again.report["warnings"] == ["examples longer than the model reads were cut: 1"]
    with pytest.raises(InputError, match="examples longer than"):
        Asker(runner).now(sent, strict=True)
    runner.adapters.remove("", first.adapter)
    assert len(runner.cache.recent) == 0
    assert Asker(runner).now(sent).report["known"] is False
    assert parsed == [1]


class Forwards(Letters):
    """Counts the batches that were answered."""

    def __init__(self):
        self.answered: list[int] = []

    def predict(self, *args):
        self.answered.append(1)
        return super().predict(*args)


def test_a_known_request_has_what_its_inputs_were_answered_before_without_a_forward(make_runner):
    runner = make_runner(Forwards())
    first = Asker(runner).now()
    runner.task.answered.clear()
    again = Asker(runner).now()
    assert again.before == first.before != first.predictions
    assert runner.task.answered == [1]
    again.before.clear()
    assert Asker(runner).now().before == first.before


@pytest.mark.parametrize(
    "other", [{"inputs": ["zz"]}, {"deterministic": True}, {"inputs": ["ab"] * 33}]
)
def test_what_other_inputs_were_answered_before_nobody_remembers(make_runner, other):
    runner = make_runner(Letters(), device="cpu")  # a CUDA device is deterministic by a setting
    first = Asker(runner).now()
    assert Asker(runner).now(**other).before is None
    assert Asker(runner).now().before == first.before
    many = {"inputs": ["ab"] * 33, "recipe": Recipe(max_steps=1)}
    assert len(Asker(runner).now(**many).before) == 33
    assert Asker(runner).now(**many).before is None


def test_an_owner_has_no_share_in_what_another_was_answered_before(make_runner):
    runner = make_runner(Letters())
    runner.read_owner_from("owner")
    known = runner.cache.recent
    request = Request(["x"], examples=ROWS)
    known.put("ann", request_digest(request), RecentRequest("k", (), ()))
    known.note_before("bob", request, ["y"])
    known.note_before("ann", request, ["z"])
    assert known.get("bob", request_digest(request)) is None
    assert known.get("ann", request_digest(request)).before_of(request) == ["z"]


def test_another_owner_is_parsed_and_runs(make_runner):
    runner = make_runner(Letters())
    runner.read_owner_from("owner")
    Asker(runner, "ann").now(EXAMPLES)
    assert Asker(runner, "bob").now(EXAMPLES).report["known"] is False
