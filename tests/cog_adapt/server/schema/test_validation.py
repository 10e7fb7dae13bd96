"""Whether inputs fit the model, in the words and the order of Cog's own server."""

import json

import cog
import pytest
from cog import BasePredictor, Input

from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.validation import REDACTED, InputValidator


class Everything(BasePredictor):
    def predict(
        self,
        text: str,
        count: int = Input(ge=0, le=10),
        scale: float = 1.0,
        flag: bool = False,
        colour: str = Input(default="red", choices=["red", "green"]),
        number: int = Input(default=1, choices=[1, 2]),
        tags: list[str] = Input(default=[]),
        word: str = Input(default="a1", regex="^[a-z][0-9]$"),
        odd: str = Input(default="ab", regex=r"^(?P<first>a)b$"),
        short: str = Input(default="ab", min_length=2, max_length=4),
        maybe: int | None = None,
        either: int | str = 1,
        many: list[int] | None = None,
        anything: dict = Input(default={}),
        file: cog.Path = Input(default=None),
        files: list[cog.Path] = Input(default=[]),
        secret: cog.Secret = Input(default=None),
        secrets: list[cog.Secret] = Input(default=[]),
    ) -> str:
        return ""


def train(name: str) -> str:
    return name


NO_URL = "is not an http(s) or data URL. Send the file as one of these."
FITS = {"text": "a", "count": 1}


@pytest.fixture(scope="module")
def document():
    return openapi_schema(Everything, train)


@pytest.fixture(scope="module")
def validator(document):
    return InputValidator(document, "Input", 1000)


@pytest.fixture(scope="module")
def problems_of(validator):
    """What is said about inputs that fit but for these: (place, message)."""

    def tell(**inputs):
        needed = {"file": "data:,x"}
        problems = validator.problems(FITS | needed | inputs)
        return [(problem.loc[2], problem.msg) for problem in problems]

    return tell


def test_what_fits_has_no_problems(problems_of):
    assert problems_of() == []
    assert (
        problems_of(flag=True, scale=2, count=2.0, tags=["a"], either="x", many=[1], word="z9")
        == []
    )
    assert problems_of(anything={"a": [None]}, number=1.0) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", "3", '"3" is not of type "integer"'),
        ("count", True, 'true is not of type "integer"'),
        ("count", 1.5, '1.5 is not of type "integer"'),
        ("flag", 1, '1 is not of type "boolean"'),
        ("text", None, 'null is not of type "string"'),
        ("anything", [], '[] is not of type "object"'),
        ("count", 11, "11 is greater than the maximum of 10"),
        ("count", -1, "-1 is less than the minimum of 0"),
        ("short", "a", '"a" is shorter than 2 characters'),
        ("short", "éééé5", '"éééé5" is longer than 4 characters'),
        ("word", "zz", '"zz" does not match "^[a-z][0-9]$"'),
        ("word", "a1\n", '"a1\\n" does not match "^[a-z][0-9]$"'),
        ("colour", "blue", '"blue" is not one of ["red","green"]'),
        ("number", 3, "3 is not one of [1,2]"),
        ("either", [], "[] is not valid under any of the schemas listed in the 'anyOf' keyword"),
        ("file", "/etc/passwd", f'"/etc/passwd" {NO_URL}'),
        ("file", "file:///x", f'"file:///x" {NO_URL}'),
        ("file", "", f'"" {NO_URL}'),
        ("file", "/tmp/http://x", f'"/tmp/http://x" {NO_URL}'),
    ],
)
def test_a_problem_in_cogs_words(problems_of, name, value, message):
    assert problems_of(**{name: value}) == [(name, message)]


def test_a_pattern_that_the_validator_cannot_compile_still_counts(problems_of):
    assert problems_of(odd="ab") == []
    assert problems_of(odd="ac") == [("odd", '"ac" does not match "^(?P<first>a)b$"')]


@pytest.mark.parametrize("url", ["http://x", "https://x", "data:,x", "data:text/plain,x"])
def test_files_are_urls(problems_of, url):
    assert problems_of(file=url, files=[url]) == []


@pytest.mark.parametrize("url", ["/etc/hosts", "file:///x", "HTTPS://x", "DATA:,x", ""])
def test_nothing_else_is_a_file(problems_of, url):
    assert [place for place, _ in problems_of(file=url)] == ["file"]


def test_an_item_of_a_list_is_named_by_its_place(problems_of):
    assert problems_of(tags=["a", 1, None]) == [
        ("tags/1", '1 is not of type "string"'),
        ("tags/2", 'null is not of type "string"'),
    ]
    assert [place for place, _ in problems_of(files=["data:,x", "x"])] == ["files/1"]


def test_choices_of_another_type_have_two_problems(problems_of):
    assert problems_of(colour=5) == [
        ("colour", '5 is not one of ["red","green"]'),
        ("colour", '5 is not of type "string"'),
    ]


@pytest.mark.parametrize("name", ["maybe", "many"])
def test_null_fits_what_may_be_none(problems_of, name):
    assert problems_of(**{name: None}) == []


@pytest.mark.parametrize("name", ["count", "tags", "either", "word"])
def test_null_fits_nothing_else(problems_of, name):
    assert [place for place, _ in problems_of(**{name: None})] == [name]


def test_all_problems_come_at_once_by_name_and_missing_inputs_last(validator):
    problems = validator.problems({"tags": [1], "count": 11, "colour": "x", "short": "toolong"})
    assert [(problem.loc[2], problem.type) for problem in problems] == [
        ("colour", "value_error"),
        ("count", "value_error"),
        ("short", "value_error"),
        ("tags/0", "value_error"),
        ("text", "value_error.missing"),
        ("file", "value_error.missing"),
    ]
    assert problems[-1].msg == "Field required"
    assert problems[-1].loc[:2] == ("body", "input")


@pytest.mark.parametrize("inputs", [[], "x", 5, None, True])
def test_inputs_that_are_no_object_are_one_problem_at_the_root(validator, inputs):
    (problem,) = validator.problems(inputs)
    assert problem.loc == ("body", "input", "__root__")
    assert problem.msg == f'{json.dumps(inputs)} is not of type "object"'


def test_a_string_is_bounded_and_the_remedy_named(problems_of):
    assert problems_of(text="é" * 1000) == []
    ((place, message),) = problems_of(text="é" * 1001)
    assert place == "text"
    assert "1,001 characters; at most 1,000" in message
    assert "MAX_STRING_LENGTH" in message


def test_the_bound_holds_for_strings_at_any_depth(problems_of):
    for name, value in (("tags", ["a", "x" * 1001]), ("anything", {"a": [{"b": "x" * 1001}]})):
        assert [place.partition("/")[0] for place, _ in problems_of(**{name: value})] == [name]
    assert problems_of(anything={"a": [{"b": "x" * 1001}]})[0][0] == "anything/a/0/b"


def test_short_json_is_not_searched_for_long_strings(validator):
    inputs = FITS | {"file": "data:,x", "text": "x" * 1001}
    assert validator.problems(inputs, size=1000) == []
    assert len(validator.problems(inputs, size=1001)) == 1


def test_an_unknown_input_is_a_problem_in_its_place_that_names_the_nearest_known_one(problems_of):
    found = problems_of(colors="red", count="x", zzz=1)
    assert [place for place, _ in found] == ["colors", "count", "zzz"]
    assert found[0][1].startswith("colors is no input; allowed: text, count, scale, flag, colour,")
    assert found[0][1].endswith(". Did you mean colour?")
    assert "Did you mean" not in found[2][1]


def test_the_kind_of_an_unknown_input_is_pydantics(validator):
    (problem,) = validator.problems(FITS | {"file": "data:,x", "zzz": 1})
    assert (problem.loc, problem.type) == (("body", "input", "zzz"), "value_error.extra")


def test_as_in_cog_unknown_inputs_are_dropped(document):
    validator = InputValidator(document, "Input", 1000, takes_unknown=True)
    inputs = FITS | {"file": "data:,x"}
    checked = validator.check(inputs | {"unknown": object}, size=1)
    assert checked == inputs


def test_secrets_are_found_and_starred_out(validator):
    assert validator.redacted({"secrets": ["s"]}) == {"secrets": REDACTED}
    inputs = {"text": "a", "secret": "s", "secrets": ["s", "t"]}
    assert validator.redacted(inputs) == {"text": "a", "secret": REDACTED, "secrets": REDACTED}
    assert validator.redacted({"text": "a", "secret": None}) is None


def test_of_what_is_sent_for_a_secret_cog_shows_numbers(document, problems_of):
    for value in (77, 0.5, True):
        assert problems_of(secret=value) == [("secret", f'{REDACTED} is not of type "string"')]
    (problem,) = InputValidator(document, "Input", 1000, takes_unknown=True).problems(
        FITS | {"file": "data:,x", "secret": 77}
    )
    assert problem.msg == '77 is not of type "string"'


@pytest.mark.parametrize("value", [["hidden"], {"a": "hidden"}])
def test_a_secret_is_not_in_what_is_said_against_it(problems_of, value):
    assert problems_of(secret=value, count="x") == [
        ("count", '"x" is not of type "integer"'),
        ("secret", f'{REDACTED} is not of type "string"'),
    ]
    assert problems_of(secrets=[value]) == [("secrets/0", f'{REDACTED} is not of type "string"')]


def test_trainings_have_their_own_inputs(document):
    validator = InputValidator(document, "TrainingInput", 1000)
    assert validator.problems({"name": "a"}) == []
    assert [problem.loc[2] for problem in validator.problems({})] == ["name"]


def test_the_document_is_not_touched():
    document = openapi_schema(Everything, train)
    before = json.dumps(document)
    InputValidator(document, "Input", 1)
    assert json.dumps(document) == before
