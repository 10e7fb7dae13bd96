import pytest

from cog_adapt.server.schema.mirror_answers import JSON, answers, json_body, operation

WORDS = {
    "200": "Successful Response",
    "202": "Accepted: not finished yet",
    "400": "The body is not JSON, or the id not UTF-8",
    "401": "No API key, or an unknown one",
    "403": "The API key lacks the scope",
    "404": "There is none",
    "406": "This model does not stream",
    "408": "The body came too slowly",
    "409": "The id is in use with another input, or all slots are",
    "413": "The body is too large",
    "415": "The body is not declared as JSON",
    "422": "Validation Error",
    "429": "The queue is full, or the caller too fast",
    "500": "The self-test could not be run",
    "503": "Not ready, or the records cannot be used",
    "504": "No self-test in time",
}


def refer(component):
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{component}"}}}


@pytest.mark.parametrize(("code", "words"), WORDS.items())
def test_each_code_has_its_words(code, words):
    assert answers(None, status=code) == {code: {"description": words}}


def test_a_success_has_the_body_of_its_component():
    assert answers("Mirror.Run") == {
        "200": {"description": WORDS["200"], "content": refer("Mirror.Run")}
    }
    assert list(answers("Mirror.Run", status="202")) == ["202"]


def test_a_refusal_has_the_body_of_an_error_and_cogs_of_a_validation():
    found = answers(None, "404", "422")
    assert found == {
        "200": {"description": WORDS["200"]},
        "404": {"description": WORDS["404"], "content": refer("Mirror.Error")},
        "422": {"description": WORDS["422"], "content": refer("HTTPValidationError")},
    }


def test_an_unknown_code_is_a_mistake():
    with pytest.raises(KeyError):
        answers(None, "418")


def test_a_body_is_json():
    assert JSON == "application/json"
    assert json_body("A") == {"content": refer("A")}


def test_an_operation_has_its_words_and_then_its_responses():
    made = operation("Show it", "show_get", {"200": {}}, parameters=[1])
    assert list(made.items()) == [
        ("summary", "Show it"),
        ("operationId", "show_get"),
        ("parameters", [1]),
        ("responses", {"200": {}}),
    ]
