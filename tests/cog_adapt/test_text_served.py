"""The language model's doors under Cog's server and the mirror, and OpenAI's client."""

import shutil
import threading
from functools import partial
from pathlib import Path

import pytest

from cog_adapt import write_schema
from cog_adapt.server.middleware.keys import make_key
from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.lm.tiny import write_model
from tests.cog_adapt.proxied import one_or_many
from tests.cog_adapt.waiting import wait_until

openai = pytest.importorskip("openai", reason="pip install -r requirements-dev.txt")

ROOT = Path(__file__).parents[2]
DOOR = "predict.py:Predictor"
ROWS = [
    {"prompt": "Which team? The parcel never came.", "completion": "delivery"},
    {"prompt": "Which team? Refund my money.", "completion": "billing"},
]
ASKED = {"prompt": "the quick fox", "max_tokens": 12}
KEY, LINE = make_key("anna", ["predict"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), scale=8.0)


def folder_with(folder, door="predict.py"):
    """A project: the example's door, and the routes on top of the mirror's."""
    (folder / "predict.py").symlink_to(ROOT / "examples" / "lm" / door)
    shutil.copytree(ROOT / "server", folder / "server")
    shutil.copy(ROOT / "examples" / "lm" / "server" / "app.py", folder / "server" / "app.py")
    return folder


def served(flavour, folder, model, *, schema=True, **env):
    own = {"DEVICE": "cpu", "WEIGHTS_DIR": str(folder / "weights"), "MODEL": str(model)}
    own |= {"SELF_TEST": "quick", "HF_HUB_OFFLINE": "1"}
    own |= env
    if flavour == "mirror":
        return one_or_many(folder, predict=DOOR, env=own)
    if schema:
        write_schema(folder, predict=DOOR)
    return serving(flavour, folder, predict=DOOR, env=own, schema=False)


@pytest.fixture(scope="module")
def coglet(tmp_path_factory, model):
    with served("coglet", folder_with(tmp_path_factory.mktemp("coglet")), model) as running:
        yield running


@pytest.fixture(scope="module")
def mirror(tmp_path_factory, model):
    folder = folder_with(tmp_path_factory.mktemp("mirror"))
    (folder / "keys").write_text(LINE)
    with served("mirror", folder, model, API_KEYS_FILE=str(folder / "keys")) as running:
        for each in running.members:
            each.client.headers["Authorization"] = f"Bearer {KEY}"
        yield running


@pytest.fixture(params=["coglet", "mirror"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def client(mirror):
    url = f"http://127.0.0.1:{mirror.port}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as made:
        yield made


def test_an_answer_has_its_pieces_and_its_metrics_have_what_it_took(server):
    body = server.predict(**ASKED)
    assert isinstance(body["output"], list)
    took = body["metrics"]["generation"]
    assert took["completion_tokens"] == 12
    assert took["finish_reason"] == "length"
    assert took["seconds_to_first_token"] > 0
    streamed = server.stream("/predictions", {"input": ASKED})
    pieces = [event.data["chunk"] for event in streamed if event.event == "output"]
    assert "".join(pieces) == "".join(body["output"])


def test_pairs_make_an_adapter_that_answers_otherwise_and_the_base_stays(server):
    before = server.output(**ASKED)
    body = server.predict(**ASKED, examples=ROWS, steps=5, learning_rate=0.02)
    adapter = body["metrics"]["adaptation"]["adapter"]
    assert body["metrics"]["adaptation"]["report"]["steps"] == 5
    assert body["output"] != before
    assert server.output(**ASKED, adapter=adapter) == body["output"]
    assert server.output(**ASKED) == before


def test_replicates_stream_has_the_text_as_it_is(mirror):
    name = mirror.start(**ASKED)
    told = mirror.get(f"/predictions/{name}/stream").text
    assert "event: output" in told
    assert told.rstrip().endswith("data: {}")


def test_a_mistake_in_the_options_is_the_callers(server):
    body = server.post("/predictions", {"input": {**ASKED, "stop": ["x"] * 17}}).json()
    assert body["status"] == "failed"
    assert "`stop` is" in body["error"]


def test_openais_client_gets_whole_answers_and_their_usage(mirror, client):
    made = client.chat.completions.create(
        model="base",
        messages=[{"role": "user", "content": ASKED["prompt"]}],
        max_tokens=12,
        temperature=0,
    )
    assert made.choices[0].message.content == "".join(mirror.output(**ASKED))
    assert made.choices[0].finish_reason == "length"
    assert made.usage.completion_tokens == 12
    assert made.usage.total_tokens == made.usage.prompt_tokens + 12


def test_openais_client_gets_streams(mirror, client):
    chunks = [
        *client.chat.completions.create(
            model="base",
            messages=[{"role": "user", "content": [{"type": "text", "text": ASKED["prompt"]}]}],
            max_completion_tokens=12,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    ]
    *pieces, last, usage = chunks
    told = "".join(chunk.choices[0].delta.content for chunk in pieces)
    assert told == "".join(mirror.output(**ASKED))
    assert last.choices[0].finish_reason == "length"
    assert usage.usage.completion_tokens == 12


def test_openais_completions_go_on_with_a_text(mirror, client):
    asked = {"model": "base", "prompt": "the quick", "max_tokens": 6, "temperature": 0}
    whole = client.completions.create(**asked)
    assert whole.choices[0].text == "".join(
        mirror.output(prompt="the quick", raw=True, max_tokens=6)
    )
    chunks = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


def test_openais_model_names_an_adapter(mirror, client):
    body = mirror.predict(**ASKED, examples=ROWS, steps=5, learning_rate=0.02)
    adapter = body["metrics"]["adaptation"]["adapter"]
    made = client.chat.completions.create(
        model=adapter,
        messages=[{"role": "user", "content": ASKED["prompt"]}],
        max_tokens=12,
        temperature=0,
    )
    assert made.model == adapter
    assert made.choices[0].message.content == "".join(body["output"])


HELLO = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("stream", [False, True])
def test_openais_client_gets_mistakes_as_errors(client, stream):
    with pytest.raises(openai.BadRequestError, match="nobodys"):
        client.chat.completions.create(model="nobodys", messages=HELLO, stream=stream)
    with pytest.raises(openai.BadRequestError, match="temperature: 9") as caught:
        client.chat.completions.create(model="base", messages=HELLO, stream=stream, temperature=9)
    assert caught.value.param == "temperature"


@pytest.mark.parametrize(
    ("field", "default", "other"),
    [
        ("n", 1, 2),
        ("logprobs", False, True),
        ("top_logprobs", 0, 2),
        ("tools", [], [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "auto", "required"),
        ("response_format", {"type": "text"}, {"type": "json_object"}),
        ("frequency_penalty", 0, 0.5),
        ("logit_bias", {}, {"5": 1}),
        ("parallel_tool_calls", True, False),
        ("store", False, True),
        ("user", None, "anna"),
        ("modalities", ["text"], ["audio"]),
        ("a_field_that_nobody_knows", None, 1),
    ],
)
def test_what_is_not_supported_is_refused_with_field_and_value(client, field, default, other):
    def ask(value):
        return client.chat.completions.create(
            model="base", messages=HELLO, max_tokens=2, extra_body={field: value}
        )

    if "nobody" not in field:
        assert ask(default).choices
        assert ask(None).choices
    with pytest.raises(openai.BadRequestError) as caught:
        ask(other)
    assert caught.value.param == field
    assert caught.value.body["message"].startswith(f"{field} is {other!r}, which")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": "hi", "name": "anna"}, "messages.0.name"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, "messages.0"),
        ({"role": "user", "content": None}, "messages.0.content"),
    ],
)
def test_a_part_of_a_message_that_cannot_be_read_is_named(client, message, field):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="base", messages=[message])
    assert caught.value.param.startswith(field)


@pytest.mark.parametrize("stream", [False, True])
def test_openais_client_may_send_examples(mirror, client, stream):
    asked = {"model": "base", "messages": [{"role": "user", "content": ASKED["prompt"]}]}
    taught = {"examples": ROWS, "steps": 5, "learning_rate": 0.02}
    made = client.chat.completions.create(
        **asked, max_tokens=12, temperature=0, stream=stream, extra_body=taught
    )
    if stream:
        chunks = [*made]
        text = "".join(chunk.choices[0].delta.content for chunk in chunks)
        adaptation = chunks[-1].adaptation
    else:
        text, adaptation = made.choices[0].message.content, made.adaptation
    assert adaptation["report"]["steps"] == 5
    expected = "".join(mirror.output(**ASKED, **taught))
    assert text == expected != "".join(mirror.output(**ASKED))
    named = {"extra_body": {"adapter": adaptation["adapter"]}}
    again = client.chat.completions.create(**asked, max_tokens=12, temperature=0, **named)
    assert again.choices[0].message.content == expected


def test_a_body_that_is_no_json_is_told_so(mirror):
    told = mirror.client.post(
        f"{mirror.url}/v1/completions", content="{", headers={"Content-Type": "application/json"}
    )
    assert told.status_code == 400
    assert told.json()["error"]["message"].startswith("the body is not JSON: ")


def test_openais_client_lists_the_base_and_the_adapters(mirror, client):
    body = mirror.predict(**ASKED, examples=ROWS, steps=5, learning_rate=0.02)
    adapter = body["metrics"]["adaptation"]["adapter"]
    mirror.request("PATCH", f"/adapters/{adapter}", {"name": "support"})
    names = [each.id for each in client.models.list()]
    assert names[0] == "base"
    (named,) = [name for name in names if name.startswith("support@v")]
    assert client.models.retrieve(named).created > 0
    assert client.models.retrieve("base").id == "base"
    with pytest.raises(openai.NotFoundError, match="nobodys"):
        client.models.retrieve("nobodys")
    made = client.chat.completions.create(model=named, messages=HELLO, max_tokens=2)
    assert made.model == named


def generates_nothing(server):
    return "cog_model_generation_bytes 0.0" in server.get("/metrics").text


def test_a_reader_who_leaves_openais_stream_cancels_the_prediction(mirror, client):
    stream = client.completions.create(
        model="base", prompt="the", max_tokens=480, temperature=0, stream=True
    )
    next(iter(stream))
    stream.close()
    mirror.until_idle()
    for each in mirror.members:
        wait_until(partial(generates_nothing, each))


def test_a_key_for_predictions_opens_openais_routes(mirror, client):
    made = client.completions.create(model="base", prompt="the", max_tokens=2, temperature=0)
    assert made.usage.completion_tokens == 2
    assert [each.id for each in client.models.list()][0] == "base"
    assert client.models.retrieve("base").id == "base"
    unknown = openai.OpenAI(base_url=f"{mirror.url}/v1", api_key="unknown", max_retries=0)
    with unknown, pytest.raises(openai.AuthenticationError):
        unknown.completions.create(model="base", prompt="the")


SLOW = """
import asyncio
from pathlib import Path

from cog import AsyncConcatenateIterator, BaseRunner, streaming


class Predictor(BaseRunner):
    @streaming
    async def run(self) -> AsyncConcatenateIterator[str]:
        for number in range(3):
            yield f"{number} "
        while not Path("go").exists():
            await asyncio.sleep(0.01)
        yield "end"
"""


def test_pieces_come_as_they_are_made_through_a_proxy_too(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    pieces: list[str] = []

    def read(running):
        with running.open_stream("/predictions", {"input": {}}) as response:
            for each in events(response):
                pieces.extend([each.data["chunk"]] if each.event == "output" else [])

    with one_or_many(tmp_path, predict="slow.py:Predictor", env={}) as running:
        reader = threading.Thread(target=read, args=[running])
        reader.start()
        wait_until(lambda: len(pieces) == 3)
        (tmp_path / "go").write_text("")
        reader.join(20)
    assert pieces == ["0 ", "1 ", "2 ", "end"]


def test_the_synchronous_door_answers_the_same_under_both(tmp_path_factory, model):
    told = []
    for flavour in ("coglet", "mirror"):
        folder = folder_with(tmp_path_factory.mktemp(f"sync-{flavour}"), "predict_sync.py")
        with served(flavour, folder, model, schema=False, SELF_TEST="off") as running:
            told.append("".join(running.output(**ASKED)))
            if flavour == "mirror":  # which has no keys, so any opens it
                url = f"{running.url}/v1"
                with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                    assert client.models.retrieve("base").id == "base"
    assert told[0] == told[1] != ""
