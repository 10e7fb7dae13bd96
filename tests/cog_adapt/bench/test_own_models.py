"""Models of one's own: how much each takes to write, and one that is served for real."""

from pathlib import Path

import pytest

from bench.own_models import speech
from bench.own_models.__main__ import MODELS, missing, row
from bench.own_models.lines import all_lines, code_lines, lines_beside_inputs
from bench.own_models.tabular import market
from cog_adapt import cog_server, write_schema

FOLDER = Path(market.__file__).parents[1]
DOORS = sorted(FOLDER.glob("*/predict.py"))
SHIPPED = [door for door in [FOLDER.parents[1] / "predict.py"] if door.exists()]
# Whisper has 76: it reads sound and writes text, and its three conversions are all of its own.
MOST_LINES = {"whisper": 80}


def name_of(path):
    return path.parent.name


def mean_squared_error(prices, houses):
    errors = [price - house["price"] for price, house in zip(prices, houses, strict=True)]
    return sum(error**2 for error in errors) / len(errors)


@pytest.mark.parametrize("door", [*DOORS, *SHIPPED], ids=name_of)
def test_a_door_has_at_most_25_lines_beside_its_inputs(door):
    assert lines_beside_inputs(door) <= 25


@pytest.mark.parametrize("task", sorted(FOLDER.glob("*/task.py")), ids=name_of)
def test_a_task_has_at_most_60_lines_with_code(task):
    assert code_lines(task) <= MOST_LINES.get(name_of(task), 60)


def test_every_model_of_the_table_is_there():
    assert {name_of(door) for door in DOORS} | {"tiny_bert"} == {*MODELS}


SOURCE = '''"""Two
lines."""

import a

# a comment
class Door:
    """One."""

    async def run(
        self,
        text: str = Input(
            default=""
        ),
        steps: int = 3,
    ) -> str:
        """Run."""
        return f"""{text}
        """  # the end
'''


def test_lines_are_counted(tmp_path):
    file = tmp_path / "predict.py"
    file.write_text(SOURCE)
    assert all_lines(file) == 19
    assert code_lines(file) == 11
    assert lines_beside_inputs(file) == 7


def test_words_are_compared():
    assert speech.word_error_rate(["One two, three four."], ["one, too three"]) == 0.5


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("bench.own_models.__main__._found", lambda place: "/" not in place)
    assert missing(MODELS["whisper"]) == ["Debian's espeak-ng"]
    cells = row("whisper", MODELS["whisper"])
    assert "not installed" in cells
    assert cells[-1] == "Debian's espeak-ng"


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    """The tabular model's door under Cog's own server."""
    folder = tmp_path_factory.mktemp("houses")
    market.write_weights(folder / "model.safetensors")
    (folder / "predict.py").symlink_to(FOLDER / "tabular" / "predict.py")
    env = {"MODEL": str(folder / "model.safetensors"), "WEIGHTS_DIR": str(folder)}
    write_schema(folder, predict="predict.py:Predictor", env=env)
    with cog_server(folder, predict="predict.py:Predictor", env=env) as server:
        yield server


def ask(server, **values):
    return server.post("/predictions", {"input": values}).json()


def test_a_model_without_labels_adapts_over_http(houses):
    held_out = market.other_town(100, seed=2)
    body = ask(houses, rows=held_out, examples=market.other_town(32, seed=1))
    assert body["status"] == "succeeded", body
    output = body["output"]
    before, after = (mean_squared_error(output[k], held_out) for k in ("before", "predictions"))
    assert after < before / 3
    again = ask(houses, rows=held_out, adapter=output["adapter"])["output"]
    assert again["predictions"] == output["predictions"]


def test_a_row_without_a_column_is_refused_by_name(houses):
    house = market.other_town(1, seed=3)[0]
    del house["garden"]
    body = ask(houses, rows=[house])
    assert body["status"] == "failed"
    assert "'garden'" in body["error"]
