import re
from typing import Any

import pytest

from cog_adapt.server.schema.document import PREDICTIONS, TRAININGS
from cog_adapt.server.schema.mirror_paths import (
    RUN_HEADERS,
    Service,
    further_paths,
    more_of_cogs_paths,
)
from tests.cog_adapt.server.schema.golden import read_golden

STREAMING = Service(PREDICTIONS, streams=True, needs_input=True)
PLAIN = Service(TRAININGS, streams=False, needs_input=False)


@pytest.mark.parametrize(("service", "name"), [(STREAMING, "predictions"), (PLAIN, "trainings")])
def test_the_paths_say_what_clients_are_generated_from(service, name):
    golden = read_golden("mirror_paths")
    assert further_paths(service) == golden[name]
    assert more_of_cogs_paths(service) == golden[f"{name} of Cog"]


def test_the_paths_of_a_service_are_named_after_its_kind():
    assert (PLAIN.path, PLAIN.path_of_one) == ("/trainings", "/trainings/{training_id}")
    frozen: Any = PLAIN
    with pytest.raises(AttributeError):
        frozen.streams = True


def test_put_accepts_and_streams_as_post_does():
    for service in (STREAMING, PLAIN):
        put = further_paths(service)[service.path_of_one]["put"]
        assert ("text/event-stream" in put["responses"]["200"]["content"]) is service.streams
        assert put["requestBody"].get("required", False) is service.needs_input
        assert "202" in put["responses"]


def test_a_document_is_not_changed_by_another():
    first = more_of_cogs_paths(STREAMING)
    first["/predictions"]["post"]["responses"]["200"]["content"] = None
    assert more_of_cogs_paths(STREAMING)["/predictions"]["post"]["responses"]["200"]["content"]


def test_the_time_after_which_to_cancel_has_a_pattern():
    (schema,) = [each["schema"] for each in RUN_HEADERS if each["name"] == "Cancel-After"]
    assert all(re.search(schema["pattern"], text) for text in ("30s", "5m", "0.5h", "100"))
    assert not any(re.search(schema["pattern"], text) for text in ("x30s", "5m ", "0", "1d"))
