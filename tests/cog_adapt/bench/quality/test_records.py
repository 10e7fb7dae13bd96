"""Results outlive the run that made them, and a line that was cut off spoils none."""

from bench.quality.records import Key, Records
from bench.quality.scores import Scores

SCORES = Scores(0.5, 1.0, 0.1, 2.0)
LORA, AUTO = (Key("tickets:8", 0, name, "digest") for name in ("lora", "auto"))


def test_a_later_run_knows_what_an_earlier_one_measured(tmp_path):
    path = tmp_path / "new" / "records.jsonl"
    Records(path).add(LORA, SCORES)
    later = Records(path)
    assert LORA in later
    assert AUTO not in later
    assert later.of_row("tickets:8", "digest", splits=1) == {"lora": {0: SCORES}}


def test_a_line_that_was_cut_off_is_dropped_and_the_next_one_is_whole(tmp_path):
    path = tmp_path / "records.jsonl"
    Records(path).add(LORA, SCORES)
    with path.open("a") as file:
        file.write('{"key": {"row": "tick')
    Records(path).add(AUTO, SCORES)
    assert {LORA, AUTO} == {key for key in (LORA, AUTO) if key in Records(path)}


def test_a_contestant_is_measured_again_on_request(tmp_path):
    path = tmp_path / "records.jsonl"
    first = Records(path)
    first.add(LORA, SCORES)
    first.add(AUTO, SCORES)
    Records(path, again=["auto"])
    assert AUTO not in Records(path)
    assert LORA in Records(path)


def test_results_of_another_text_or_of_later_splits_are_left_out(tmp_path):
    records = Records(tmp_path / "records.jsonl")
    records.add(LORA, SCORES)
    assert not records.of_row("tickets:8", "other digest", splits=1)
    assert not records.of_row("tickets:8", "digest", splits=0)
    assert not records.of_row("tickets:4", "digest", splits=1)
