from cog_adapt.server.schema.mirror_server_paths import SERVER_PATHS
from tests.cog_adapt.server.schema.golden import read_golden


def test_the_paths_say_what_clients_are_generated_from():
    assert read_golden("mirror_server_paths") == SERVER_PATHS


def test_each_operation_has_a_name_and_an_answer():
    found = {
        operation["operationId"]: sorted(operation["responses"])
        for item in SERVER_PATHS.values()
        for operation in item.values()
    }
    assert found == {
        "openapi_get": ["200", "503"],
        "docs_get": ["200"],
        "healthz_get": ["200"],
        "readyz_get": ["200", "503"],
        "selftest_get": ["200", "404", "503"],
        "selftest_post": ["200", "404", "500", "503", "504"],
        "metrics_get": ["200"],
        "shutdown_post": ["200"],
    }


def test_not_ready_is_answered_as_ready_is():
    responses = SERVER_PATHS["/readyz"]["get"]["responses"]
    assert responses["200"]["content"] == responses["503"]["content"]
    assert responses["503"]["description"] == "Not ready"
