"""Section 2: what is checked of the inputs, in which words, and what reaches run()."""

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog

GOOD = {"s": "x", "n": 1}


def problem(field, message, kind="value_error"):
    return {"loc": ["body", "input", field], "msg": message, "type": kind}


def missing(field):
    return problem(field, "Field required", "value_error.missing")


def detail(server, body, path="/predictions"):
    response = server.request("POST", path, body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"detail"}
    return response.json()["detail"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("s", 5, '5 is not of type "string"'),
        ("s", None, 'null is not of type "string"'),
        ("s", ["é"], '["é"] is not of type "string"'),
        ("i", "3", '"3" is not of type "integer"'),
        ("i", True, 'true is not of type "integer"'),
        ("i", 2.5, '2.5 is not of type "integer"'),
        ("i", 11, "11 is greater than the maximum of 10"),
        ("i", -1, "-1 is less than the minimum of 0"),
        ("f", "x", '"x" is not of type "number"'),
        ("f", 2, "2 is greater than the maximum of 1.0"),
        ("f", -0.5, "-0.5 is less than the minimum of 0.0"),
        ("b", 1, '1 is not of type "boolean"'),
        ("b", "true", '"true" is not of type "boolean"'),
        ("short", "a", '"a" is shorter than 2 characters'),
        ("short", "😀", '"😀" is shorter than 2 characters'),
        ("short", "abcde", '"abcde" is longer than 4 characters'),
        ("pattern", "zz", '"zz" does not match "^[a-z][0-9]$"'),
        ("pattern", "a1\n", '"a1\\n" does not match "^[a-z][0-9]$"'),
        ("choice", "blue", '"blue" is not one of ["red","green"]'),
        ("number_choice", 3, "3 is not one of [1,2]"),
        ("tags", "x", '"x" is not of type "array"'),
        ("maybe", 5, '5 is not of type "string"'),
        ("maybe_number", "5", '"5" is not of type "integer"'),
        ("anything", 5, '5 is not of type "object"'),
        ("mapping", [], '[] is not of type "object"'),
        ("either", [], "[] is not valid under any of the schemas listed in the 'anyOf' keyword"),
        ("either", 1.5, "1.5 is not valid under any of the schemas listed in the 'anyOf' keyword"),
        ("path", 5, '5 is not of type "string"'),
        ("file", {"a": 1}, '{"a":1} is not of type "string"'),
        ("paths", "data:,x", '"data:,x" is not of type "array"'),
    ],
)
def test_what_does_not_fit_is_422(inputs, field, value, message):
    assert detail(inputs, {"input": GOOD | {field: value}}) == [problem(field, message)]


def test_of_a_pattern_of_choices_the_choices_are_listed(inputs):
    cog = '"qlora" does not match "^(auto|lora)$"'
    message = expect(
        inputs, coglet=cog, mirror=f"{cog}. Send one of auto, lora.", because="pattern-choices"
    )
    assert detail(inputs, {"input": GOOD | {"method": "qlora"}}) == [problem("method", message)]


def test_of_many_problems_there_are_few_in_an_answer(inputs):
    found = detail(inputs, {"input": GOOD | {"tags": [1] * 150}})
    listed = expect(inputs, coglet=150, mirror=101, because="many-problems")
    assert len(found) == listed
    if listed == 101:
        more = {"loc": ["body", "input"], "type": "value_error"}
        words = "the first 100 problems are listed; 50 items of lists were not looked at"
        assert found[-1] == more | {"msg": f"{words}. Correct these first."}


def test_of_a_long_value_there_is_little_in_a_problem(inputs):
    (found,) = detail(inputs, {"input": GOOD | {"i": "x" * 5000}})
    limit = expect(inputs, coglet=6000, mirror=1000, because="long-problems")
    assert limit / 2 < len(found["msg"]) < limit


def test_a_number_that_is_sent_for_a_secret(inputs):
    message = expect(
        inputs,
        coglet='5 is not of type "string"',
        mirror='********** is not of type "string"',
        because="secret-numbers",
    )
    assert detail(inputs, {"input": GOOD | {"secret": 5}}) == [problem("secret", message)]


@pytest.mark.parametrize(
    ("field", "value", "problems"),
    [
        (
            "tags",
            [1, "a", 2],
            [("tags/0", '1 is not of type "string"'), ("tags/2", '2 is not of type "string"')],
        ),
        ("numbers", ["1"], [("numbers/0", '"1" is not of type "integer"')]),
        ("paths", [5], [("paths/0", '5 is not of type "string"')]),
        (
            "choice",
            5,
            [
                ("choice", '5 is not one of ["red","green"]'),
                ("choice", '5 is not of type "string"'),
            ],
        ),
        (
            "number_choice",
            "1",
            [
                ("number_choice", '"1" is not one of [1,2]'),
                ("number_choice", '"1" is not of type "integer"'),
            ],
        ),
    ],
)
def test_a_value_may_have_several_problems(inputs, field, value, problems):
    found = detail(inputs, {"input": GOOD | {field: value}})
    assert found == [problem(*each) for each in problems]


def test_all_problems_at_once_by_name_and_the_missing_last(inputs):
    found = detail(inputs, {"input": {"i": "x", "f": "y", "b": 3, "h": 1}})
    if not follows_cog(inputs, because="unknown-inputs"):
        assert found.pop(2)["loc"] == ["body", "input", "h"]
    assert found == [
        problem("b", '3 is not of type "boolean"'),
        problem("f", '"y" is not of type "number"'),
        problem("i", '"x" is not of type "integer"'),
        missing("s"),
        missing("n"),
    ]


@pytest.mark.parametrize("body", [{}, {"input": {}}, {"input": None}])
def test_what_has_no_default_is_required(inputs, body):
    assert detail(inputs, body) == [missing("s"), missing("n")]


@pytest.mark.parametrize(("value", "shown"), [([], "[]"), ("x", '"x"'), (5, "5"), (True, "true")])
def test_inputs_that_are_no_object(inputs, value, shown):
    found = detail(inputs, {"input": value})
    assert found == [problem("__root__", f'{shown} is not of type "object"')]


@pytest.mark.parametrize("headers", [{"Prefer": "respond-async"}, {"Prefer": "wait=1"}])
def test_inputs_are_checked_in_every_mode(inputs, headers):
    response = inputs.request("POST", "/predictions", {"input": {}}, headers=headers)
    assert response.status_code == 422
    path = f"/predictions/{inputs.new_id()}"
    assert inputs.request("PUT", path, {"input": {}}, headers=headers).status_code == 422


def test_defaults(inputs):
    assert inputs.output(**GOOD) == {
        "s": ["str", "x"],
        "n": ["int", 1],
        "i": ["int", 1],
        "f": ["float", 0.5],
        "b": ["bool", False],
        "short": ["str", "ab"],
        "pattern": ["str", "a1"],
        "choice": ["str", "red"],
        "number_choice": ["int", 1],
        "tags": [["str", "x"]],
        "numbers": [],
        "secret": ["NoneType", None],
        "maybe": ["NoneType", None],
        "maybe_number": ["NoneType", None],
        "anything": ["dict", {}],
        "mapping": ["dict", {}],
        "either": ["str", "e"],
        "old": ["str", "o"],
        "path": ["NoneType", None],
        "file": ["NoneType", None],
        "paths": [],
        "method": ["str", "auto"],
    }


@pytest.mark.parametrize(
    ("field", "value", "arrives"),
    [
        ("i", 0, ["int", 0]),
        ("i", 10, ["int", 10]),
        ("f", 0.25, ["float", 0.25]),
        ("f", 1, ["int", 1]),
        ("b", True, ["bool", True]),
        ("short", "é😀", ["str", "é😀"]),
        ("choice", "green", ["str", "green"]),
        ("number_choice", 2, ["int", 2]),
        ("tags", [], []),
        ("tags", ["a", "b"], [["str", "a"], ["str", "b"]]),
        ("numbers", [1, 2], [["int", 1], ["int", 2]]),
        ("secret", "pw", ["Secret", "pw"]),
        ("maybe", "m", ["str", "m"]),
        ("maybe_number", 7, ["int", 7]),
        ("anything", {"a": [1, None]}, ["dict", {"a": [1, None]}]),
        ("mapping", {"a": 1}, ["dict", {"a": 1}]),
        ("either", "s", ["str", "s"]),
        ("either", 5, ["int", 5]),
        ("old", "new", ["str", "new"]),
        ("s", "http://nowhere.invalid/x", ["str", "http://nowhere.invalid/x"]),
        ("s", "data:text/plain,x", ["str", "data:text/plain,x"]),
        ("path", "data:text/plain,hi", ["Path", "hi"]),
        ("paths", ["data:text/plain,a", "data:,b"], [["Path", "a"], ["Path", "b"]]),
    ],
)
def test_what_fits_arrives(inputs, field, value, arrives):
    assert inputs.output(**(GOOD | {field: value}))[field] == arrives


def test_a_file_arrives_to_be_read(inputs):
    kind, content = inputs.output(**GOOD, file="data:text/plain,hi")["file"]
    assert content == "hi"


def test_an_input_that_the_model_does_not_have(inputs):
    body = {"input": GOOD | {"chioce": "red"}}
    if follows_cog(inputs, because="unknown-inputs"):
        assert "chioce" not in inputs.output(**body["input"])
    else:
        (found,) = detail(inputs, body)
        assert (found["loc"], found["type"]) == (["body", "input", "chioce"], "value_error.extra")
        assert found["msg"].startswith("chioce is no input; allowed: s, n, i,")
        assert found["msg"].endswith(" Did you mean choice?")


def test_a_whole_float_for_an_int(inputs):
    kind, value = inputs.output(**GOOD, i=2.0)["i"]
    assert (kind, value) == (
        expect(inputs, coglet="float", mirror="int", because="whole-floats"),
        2,
    )


@pytest.mark.parametrize("field", ["maybe", "maybe_number", "path", "file", "secret"])
def test_null_where_the_schema_says_nullable(inputs, field):
    body = {"input": GOOD | {field: None}}
    if follows_cog(inputs, because="nullable"):
        (found,) = detail(inputs, body)
        assert found["msg"].startswith("null is not of type")
    else:
        assert inputs.output(**body["input"])[field] == ["NoneType", None]


@pytest.mark.parametrize("field", ["i", "tags", "choice", "mapping"])
def test_null_elsewhere_is_422(inputs, field):
    found = detail(inputs, {"input": GOOD | {field: None}})
    assert found[-1]["msg"].startswith("null is not of type")
