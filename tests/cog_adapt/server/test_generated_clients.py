"""Two generators make clients from /openapi.json, as `docs/generated-clients.md` shows it.

The generators are installed once, below `.data/generators`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cog_adapt.server.middleware.keys import make_key
from tests.cog_adapt.contract.serving import serving, wait_until
from tests.cog_adapt.forks import REPOSITORY
from tests.cog_adapt.lm.tiny import write_model
from tests.cog_adapt.test_text_served import ROWS, folder_with
from tests.cog_adapt.test_text_served import served as served_model

SHOWN = (REPOSITORY / "docs" / "generated-clients.md").read_text("utf-8")
GENERATORS = REPOSITORY / ".data" / "generators"
ADDRESS = "http://127.0.0.1:5000"
PYTHON_PACKAGE = "openapi-python-client==0.29.1"
NODE_PACKAGES = ("@hey-api/openapi-ts@0.99.0", "typescript@5.9.3")
PREDICTOR = """\
from cog import BaseModel, BaseRunner, Input


class Output(BaseModel):
    label: str
    score: float


class Predictor(BaseRunner):
    def run(
        self, text: str = Input(), colour: str = Input(default="red", choices=["red", "green"])
    ) -> Output:
        return Output(label=f"{colour} {text}", score=0.5)
"""
TRAINING = """\
from cog import BaseModel


class TrainingOutput(BaseModel):
    size: int


def train(size: int) -> TrainingOutput:
    return TrainingOutput(size=size)
"""
USED_IN_PYTHON = """
from cog_client.api.predictions import predictions_get
from cog_client.models import Colour, MirrorPage, MirrorRun, Output, PredictionResponse

assert isinstance(answer, PredictionResponse) and isinstance(answer.output, Output), answer
assert (answer.output.label, answer.output.score) == ("red Where is my parcel?", 0.5)
assert isinstance(page, MirrorPage) and isinstance(page.results[0], MirrorRun), page
assert [run.status.value for run in page.results] == ["succeeded"]
green = MirrorPredictionRequest(input_=Input(text="b", colour=Colour.GREEN))
assert predictions_create.sync(client=client, body=green).output.label == "green b"
by_header = AuthenticatedClient(URL, token=KEY, prefix="", auth_header_name="X-Api-Key")
found = predictions_get.sync(page.results[0].id, client=by_header)
assert isinstance(found, MirrorRun) and found.id == page.results[0].id
stranger = AuthenticatedClient(URL, token="ca_unknown")
assert predictions_list.sync_detailed(client=stranger).status_code == 401
"""
USED_IN_TYPESCRIPT = """
const done = answer.data as import('./cog-client').PredictionResponse;
const label: string | undefined = done.output?.label;
const ids: string[] | undefined = page.data?.results.map((run) => run.id);
// @ts-expect-error: a text is no number
const wrong = await predictionsCreate({ body: { input: { text: 1 } } });
client.setConfig({ auth: 'ca_unknown' });
const refused = (await predictionsList()).response?.status;
console.log(JSON.stringify({ label, runs: ids?.length, wrong: wrong.response?.status, refused }));
"""
LANGUAGE_MODEL_IN_PYTHON = """
from cog_client import AuthenticatedClient
from cog_client.api.openai import v1_chat_completions_create, v1_models_list
from cog_client.api.predictions import predictions_create
from cog_client.models import Input, MirrorChatAsked, MirrorPredictionRequest, PredictionResponse

client = AuthenticatedClient(URL, token=KEY)
values = Input.from_dict({"prompt": "the quick fox", "max_tokens": 4, "steps": 2, "examples": ROWS})
answer = predictions_create.sync(client=client, body=MirrorPredictionRequest(input_=values))
assert isinstance(answer, PredictionResponse) and "".join(answer.output), answer
(adapter,) = [answer.metrics["adaptation"]["adapter"]]
chat = MirrorChatAsked.from_dict(
    {
        "model": adapter,
        "max_tokens": 4,
        "temperature": 0,
        "messages": [{"role": "user", "content": "the fox"}],
    }
)
assert chat.max_tokens == 4 and chat.seed is not None
said = v1_chat_completions_create.sync_detailed(client=client, body=chat)
assert json.loads(said.content)["choices"][0]["message"]["content"], said
models = json.loads(v1_models_list.sync_detailed(client=client).content)["data"]
assert [each["id"] for each in models] == ["base", adapter], models
"""
LANGUAGE_MODEL_IN_TYPESCRIPT = """
import { predictionsCreate, v1ChatCompletionsCreate, v1ModelsList } from './cog-client';
import { client } from './cog-client/client.gen';
async function use() {
  client.setConfig({ baseUrl: URL, auth: KEY });
  const input = { prompt: 'the quick fox', max_tokens: 4, steps: 2, examples: ROWS };
  const done = (await predictionsCreate({ body: { input } })).data as
    import('./cog-client').PredictionResponse;
  const pieces: string[] | undefined = done.output;
  const max_tokens: number | null | undefined = 4;
  // @ts-expect-error: a text is no number
  const wrong: import('./cog-client').MirrorChatAsked = { messages: [], max_tokens: 'four' };
  const messages = [{ role: 'user' as const, content: 'the fox' }];
  const chat = { messages, max_tokens, temperature: 0 };
  const said = (await v1ChatCompletionsCreate({ body: chat })).data as any;
  const models = (await v1ModelsList()).data as any;
  const names = models.data.map((each: { id: string }) => each.id);
  console.log(JSON.stringify({
    pieces: pieces!.join('').length > 0,
    said: said.choices[0].message.content.length > 0,
    names: names[0],
  }));
}
use();
"""
COMPILED = {
    "compilerOptions": {
        **{"module": "commonjs", "target": "es2022", "strict": True},
        **{"lib": ["es2022", "dom", "dom.iterable"], "types": []},
    },
    "include": ["use.ts"],
}


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    """Run a command; return what it wrote."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def installed(folder: Path, program: str, *commands: tuple[str | Path, ...]) -> Path:
    """Return the folder of a generator's program, made by the commands if it is not there yet."""
    if not (folder / program).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in commands:
            try:
                run(*command, folder=folder)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                shutil.rmtree(folder)
                pytest.skip(f"{command[0]} cannot install the generator: {str(error)[-200:]}")
    return (folder / program).parent


@pytest.fixture(scope="module")
def python_tools() -> Path:
    """Return the folder of openapi-python-client."""
    folder = GENERATORS / "python"
    venv = (sys.executable, "-m", "venv", folder)
    install = (folder / "bin" / "pip", "install", "-q", PYTHON_PACKAGE)
    return installed(folder, "bin/openapi-python-client", venv, install)


@pytest.fixture(scope="module")
def node_tools() -> Path:
    """Return the folder of openapi-ts and TypeScript's compiler."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("no node")
    install = ("npm", "install", "--no-audit", "--no-fund", "--prefix", ".", *NODE_PACKAGES)
    return installed(GENERATORS / "node", "node_modules/.bin/openapi-ts", install)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a key, and the key."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "typed.py").write_text(PREDICTOR)
    (folder / "typed_train.py").write_text(TRAINING)
    key, line = make_key("test", ["predict"])
    (folder / "keys").write_text(f"{line}\n")
    with serving(
        "mirror",
        folder,
        predict="typed.py:Predictor",
        train="typed_train.py:train",
        env={"API_KEYS_FILE": str(folder / "keys")},
        until=None,
    ) as server:
        server.client.headers["Authorization"] = f"Bearer {key}"
        wait_until(server, "READY")
        yield server, key


def shown(language: str, url: str) -> str:
    """Return a block of the page, for a server that listens elsewhere."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", SHOWN, re.DOTALL)
    return str(block).replace(ADDRESS, url)


def generated(program: str, url: str, *, key: str, tools: Path, folder: Path) -> str:
    """Fetch the document and run one generator, by the page's commands; return what it wrote."""
    fetch, *generators = shown("sh", url).splitlines()
    (command,) = [line for line in generators if program in line]
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    assert run("bash", "-c", fetch, folder=folder, KEY=key) == ""
    return run("bash", "-c", command, folder=folder, PATH=path)


def test_a_python_client_is_made_without_warnings_and_works(served, python_tools, tmp_path):
    server, key = served
    tool = "openapi-python-client"
    said = generated(tool, server.url, key=key, tools=python_tools, folder=tmp_path)
    assert said.strip() == "Generating cog_client"
    names = f"KEY, URL = {key!r}, {server.url!r}\n"
    (tmp_path / "use.py").write_text(names + shown("python", server.url) + USED_IN_PYTHON)
    run(python_tools / "python", "use.py", folder=tmp_path)


def test_a_typescript_client_is_made_without_warnings_and_works(served, node_tools, tmp_path):
    server, key = served
    (tmp_path / "node_modules").symlink_to(node_tools.parent)
    (tmp_path / "tsconfig.json").write_text(json.dumps(COMPILED))
    said = generated("openapi-ts", server.url, key=key, tools=node_tools, folder=tmp_path)
    assert not re.search(r"warn|error|skip", said, re.IGNORECASE), said
    imports, body = re.split(r"(?=^client\.)", shown("ts", server.url), maxsplit=1, flags=re.M)
    used = f"{imports}const KEY = {key!r};\nasync function use() {{\n{body}{USED_IN_TYPESCRIPT}}}"
    (tmp_path / "use.ts").write_text(f"{used}\nuse();\n")
    run(node_tools / "tsc", "--project", ".", folder=tmp_path)
    answered = json.loads(run("node", "use.js", folder=tmp_path))
    assert answered.pop("runs") >= 1
    assert answered == {"label": "red Where is my parcel?", "wrong": 422, "refused": 401}


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """A server of the language model's project, with OpenAI's routes and a key; and the key."""
    folder = folder_with(tmp_path_factory.mktemp("lm"))
    key, line = make_key("test", ["predict"])
    (folder / "keys").write_text(f"{line}\n")
    model = write_model(tmp_path_factory.mktemp("model"), scale=8.0)
    settings = {"API_KEYS_FILE": str(folder / "keys"), "SELF_TEST": "off"}
    with served_model("mirror", folder, model, **settings) as server:
        server.client.headers["Authorization"] = f"Bearer {key}"
        wait_until(server, "READY")
        yield server, key


def test_the_language_models_document_makes_a_python_client(language_model, python_tools, tmp_path):
    server, key = language_model
    tool = "openapi-python-client"
    said = generated(tool, server.url, key=key, tools=python_tools, folder=tmp_path)
    assert said.strip() == "Generating cog_client"
    names = f"import json\nKEY, URL, ROWS = {key!r}, {server.url!r}, {ROWS}\n"
    (tmp_path / "use.py").write_text(names + LANGUAGE_MODEL_IN_PYTHON)
    run(python_tools / "python", "use.py", folder=tmp_path)


def test_the_language_models_document_makes_a_typescript_client(
    language_model, node_tools, tmp_path
):
    server, key = language_model
    (tmp_path / "node_modules").symlink_to(node_tools.parent)
    (tmp_path / "tsconfig.json").write_text(json.dumps(COMPILED))
    said = generated("openapi-ts", server.url, key=key, tools=node_tools, folder=tmp_path)
    assert not re.search(r"warn|error|skip", said, re.IGNORECASE), said
    names = "".join(
        f"const {name} = {json.dumps(value)};\n"
        for name, value in {"KEY": key, "URL": server.url, "ROWS": ROWS}.items()
    )
    (tmp_path / "use.ts").write_text(f"{names}{LANGUAGE_MODEL_IN_TYPESCRIPT}")
    run(node_tools / "tsc", "--project", ".", folder=tmp_path)
    answered = json.loads(run("node", "use.js", folder=tmp_path))
    assert answered == {"pieces": True, "said": True, "names": "base"}
