"""What a beginner's mistakes are answered with: a sentence with the hook, the value, the remedy.

Each is one edit of a task that works, or one request to it.
"""

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from cog_adapt.runner.data.examples import parse_examples
from cog_adapt.runner.errors import RunnerError
from cog_adapt.runner.selftest.task_file import load_model, load_task

TASK = """\
import torch
from torch import nn
from torch.nn import functional as F

from cog_adapt import Example, Task

COLUMNS = ("height", "width")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x).tanh())


class Boxes(Task):
    head = r"head\\..*"

    def load(self):
        torch.manual_seed(0)
        module = Net()
        return module

    def encode(self, inputs):
        return {"x": torch.tensor([[float(row[name]) for name in COLUMNS] for row in inputs])}

    def labels(self, examples):
        return tuple(dict.fromkeys(example.target for example in examples))

    def start(self, module, labels, examples):
        rows = torch.linspace(-1, 1, len(labels) * 8).reshape(-1, 8)
        return {"head.weight": rows, "head.bias": torch.zeros(len(labels))}

    def loss(self, module, batch, targets):
        return F.cross_entropy(module(batch["x"]), targets, reduction="none")

    def predict(self, module, batch, labels, options):
        return [labels[row] for row in module(batch["x"]).argmax(-1).tolist()]

    def probe(self):
        tall, flat = {"height": 2.0, "width": 1.0}, {"height": 1.0, "width": 3.0}
        return [Example(tall, "tall"), Example(flat, "flat")]
"""
TALL, FLAT = {"height": 2.0, "width": 1.0}, {"height": 1.0, "width": 3.0}
EXAMPLES = [{"input": TALL, "label": "tall"}, {"input": FLAT, "label": "flat"}] * 3
CROSS_ENTROPY = 'return F.cross_entropy(module(batch["x"]), targets, reduction="none")'


def checked(folder: Path, source: str, **settings: Any) -> str:
    """Do what `cog-adapt selftest` does; return what it says."""
    file = folder / "boxes.py"
    file.write_text(source)
    try:
        settings = {"device": "cpu"} | settings
        chosen = RunnerSettings(weights_dir=folder, **settings)
        model = load_model(load_task(str(file)), chosen)
        with ModelRunner(model.task, chosen) as runner:
            report = runner.self_test()
    except RunnerError as error:
        return str(error)
    return "" if report.passed else str(report)


def refused(folder: Path, source: str = TASK, **given: Any) -> str:
    """Send a request to the task; return why it is refused."""
    file = folder / "boxes.py"
    file.write_text(source)
    with ModelRunner(load_task(str(file)), RunnerSettings(device="cpu", weights_dir=folder)) as own:
        usual: dict[str, Any] = {"inputs": [TALL], "recipe": Recipe(max_steps=2)}
        request = Request(**(usual | given))
        with pytest.raises(RunnerError) as raised:
            asyncio.run(answer(own, request))
    return str(raised.value)


PREDICTED = 'return [labels[row] for row in module(batch["x"]).argmax(-1).tolist()]'
ENCODED = 'return {"x": torch.tensor([[float(row[name]) for name in COLUMNS] for row in inputs])}'
LABELS = """\
    def labels(self, examples):
        return tuple(dict.fromkeys(example.target for example in examples))
"""
START = """\
        rows = torch.linspace(-1, 1, len(labels) * 8).reshape(-1, 8)
        return {"head.weight": rows, "head.bias": torch.zeros(len(labels))}
"""
NUMBERS = {
    LABELS: "",
    START: "        return {}\n",
    CROSS_ENTROPY: 'return (module(batch["x"]).squeeze(1) - targets).square()',
    PREDICTED: 'return module(batch["x"]).squeeze(1).tolist()',
}
PROBE = TASK[TASK.index("        tall, flat") :]

# what is wrong: what is written in place of what, and what is said
IN_THE_TASK: dict[str, tuple[str, str, str]] = {
    "a hook is missing": (
        CROSS_ENTROPY + "\n\n    def predict(",
        "raise NotImplementedError\n\n    def predcit(",
        "Boxes in .*boxes.py lacks predict. Write them; predcit is near predict: rename it",
    ),
    "a class with arguments": (
        "    def load(self):",
        "    def __init__(self, folder):\n        self.folder = folder\n\n    def load(self):",
        "asks for folder, but a task is built without arguments. Give them defaults",
    ),
    "an import that is not there": (
        "import torch\n",
        "import torhc\n",
        r"boxes.py cannot be loaded: .*'torhc'. Where: .*:1: import torhc. Correct the line",
    ),
    "load returns weights": (
        "        return module\n",
        "        return module.state_dict()\n",
        "Boxes.load returned a OrderedDict. Return the module; give it a state dict with",
    ),
    "weights of another model": (
        "        return module\n",
        "        module.load_state_dict({'other': torch.zeros(1)})\n        return module\n",
        'model of Boxes cannot be loaded: .*Missing key.*"body.weight".*'
        "Let Boxes.load build the model that fits its weights",
    ),
    "wrong shapes": (
        "nn.Linear(2, 8)",
        "nn.Linear(3, 8)",
        r"Boxes.loss raised .*\(2x2 and 3x8\). `encode` gives x \(2, 2\), `encode_targets` "
        r"\(2,\) of int64. Make them and the model fit. Where: .*:17",
    ),
    "labels that do not fit": (
        "targets, reduction",
        "targets + 1, reduction",
        r"Boxes.loss raised .*Target 2 is out of bounds.*`encode_targets` \(2,\) of int64",
    ),
    "targets of another kind": (
        "targets, reduction",
        "targets.float(), reduction",
        "Boxes.loss raised .*expected target dtype.* Make them and the model fit",
    ),
    "a loss of all examples together": (
        ', reduction="none")',
        ")",
        r"Boxes.loss returned \(\) for 2 examples. Return one loss for each, shape \(N,\)",
    ),
    "a loss for each label": (
        CROSS_ENTROPY,
        'return F.one_hot(targets) * module(batch["x"])',
        r"Boxes.loss returned \(2, 2\) for 2 examples. Return one loss for each",
    ),
    "a loss without a graph": (
        "    def loss(",
        "    @torch.no_grad()\n    def loss(",
        "6 parameters without a gradient .* Keep the values in torch, with their graph.* Where: ",
    ),
    "predict returns a tensor": (
        PREDICTED,
        'return module(batch["x"])',
        "Boxes.predict gave Tensor for 2 inputs. Return a list, an answer each",
    ),
    "predict returns tensors": (
        PREDICTED,
        'return list(module(batch["x"]))',
        "Boxes.predict gave a torch.Tensor. Return texts, numbers, booleans",
    ),
    "predict answers one input of two": (
        PREDICTED,
        'return ["tall"]',
        "Boxes.predict gave 1 for 2 inputs. Return a list, an answer each",
    ),
    "encode leaves rows out": (
        "for row in inputs])",
        "for row in inputs[:1]])",
        r"Boxes.encode made of 2 inputs .*\(1, 2\).* Keep a row for each input",
    ),
    "encode returns a tensor": (
        ENCODED,
        "return torch.zeros(len(inputs), 2)",
        "Boxes.encode returned a Tensor. Return a dict of tensors by name",
    ),
    "lora_targets matches nothing": (
        '    head = r"head',
        '    lora_targets = "query|value"\n    head = r"head',
        r"Boxes.lora_targets 'query\|value' matches no linear layer of Net as a whole name. Write",
    ),
    "head matches nothing": (
        'head = r"head',
        'head = r"classifier',
        "Boxes.head 'classifier.*' does not match head.weight as a whole name. Write a regex",
    ),
    "an empty probe": (
        PROBE,
        "        return []\n",
        "Boxes.probe returned a list of no examples. Return a list of two or more",
    ),
    "a probe of tuples": (
        PROBE,
        '        return [({"height": 1, "width": 2}, "tall")]\n',
        r"Boxes.probe holds a tuple. Write Example\(input, target\)",
    ),
    "start without a row for each label": (
        "len(labels) * 8)",
        "8)",
        r"Boxes.start made of 2 labels {'head.weight': \(1, 8\)}. Give a row for each label",
    ),
}
IN_A_REQUEST: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "labels of others": (
        {},
        {"labels": ["tall"], "examples": EXAMPLES},
        r"`labels` has the labels \['tall'\], but `examples` has .*make them agree",
    ),
    "an unknown column": (
        {},
        {"examples": [{"hight": 2, "label": "tall"}]},
        r"row 1: no input among \['hight', 'label'\]: name its column one of 'input'",
    ),
    "a target that is no number": (
        NUMBERS,
        {"examples": EXAMPLES},
        "the targets .*'tall'.* are no numbers: .*Send numbers.*or give the task `labels`",
    ),
    "nothing to answer": ({}, {"inputs": []}, "no input: .*Send at least one"),
    "an input without what encode reads": (
        {},
        {"inputs": [{"height": 1.0}], "labels": ["tall", "flat"]},
        "Boxes.encode raised KeyError: 'width'. Send inputs that it can read, or correct it",
    ),
    "an example without what encode reads": (
        {},
        {"examples": [*EXAMPLES, {"input": {"width": 1.0}, "label": "flat"}]},
        "Boxes.encode raised KeyError: 'height'. Send inputs that it can read, or correct it",
    ),
    "a row of which example makes nothing": (
        {LABELS: "    def example(self, row):\n        return row['box']\n\n" + LABELS},
        {"examples": EXAMPLES},
        "Boxes.example raised KeyError: 'box'. Send inputs that it can read, or correct it",
    ),
    "an adapter that nobody knows": (
        {},
        {"adapter": "mine"},
        "adapter 'mine' is not known here; .*Send its examples again",
    ),
    "a picture that nobody fetched": (
        {},
        {"examples_file": "boxes.csv"},
        "'boxes.csv' is no file that this server has fetched. Send a file",
    ),
}


def edited(source: str, edits: dict[str, str]) -> str:
    for old, new in edits.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def test_without_a_mistake_nothing_is_said(tmp_path):
    assert checked(tmp_path, TASK) == ""


@pytest.mark.parametrize("mistake", IN_THE_TASK)
def test_a_mistake_in_the_task_is_named(tmp_path, mistake):
    old, new, said = IN_THE_TASK[mistake]
    assert re.search(said, checked(tmp_path, edited(TASK, {old: new})), re.DOTALL)


@pytest.mark.parametrize("mistake", IN_A_REQUEST)
def test_a_mistake_in_a_request_is_named(tmp_path, mistake):
    edits, given, said = IN_A_REQUEST[mistake]
    assert re.search(said, refused(tmp_path, edited(TASK, edits), **given), re.DOTALL)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_named(tmp_path):
    said = checked(tmp_path, TASK, device="cuda")
    assert re.search("DEVICE is 'cuda', but .* or set DEVICE=cpu", said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "lorra"}, "method is 'lorra'; allowed: auto, lora, .*Choose one"),
        ({"max_steps": 0}, "max_steps is 0; allowed: 1 to 100000"),
    ],
)
def test_a_recipe_that_is_none_is_named(given, said):
    with pytest.raises(RunnerError, match=said):
        Recipe(**given)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"text": 7, "label": "tall"},
            r"row 1: text is 7 \(int\), not a text. Send one, in quotes",
        ),
        ({"text": "7", "label": 7.5}, r"row 1: label is 7.5 \(float\), not a text. Send one"),
        ({"text": 7}, r"row 1: no target among .*name its column one of .* row is {'text': 7}"),
    ],
)
def test_a_number_where_a_text_belongs_is_named(row, said):
    shipped = pytest.importorskip("task", reason="the shipped task is not here")
    task = object.__new__(shipped.TextClassification)  # its weights are not needed
    with pytest.raises(RunnerError, match=said):
        parse_examples([row], task.example)


@pytest.mark.parametrize(
    ("module", "remedy"),
    [("image.pictures", "a ZIP with a folder of pictures"), ("speech.sounds", "in base64")],
)
def test_a_url_in_a_row_is_refused_and_nothing_is_opened(module, remedy, monkeypatch):
    opened: list[object] = []
    monkeypatch.setattr("socket.socket.connect", lambda *given: opened.append(given))
    file_of = importlib.import_module(f"examples.{module}").file_of
    with pytest.raises(RunnerError, match=f"URL 'http://127.0.0.1/a'.* not fetched.*{remedy}"):
        file_of("http://127.0.0.1/a")
    assert not opened


def test_a_folder_for_weights_is_a_path_and_text_is_taken_for_one(tmp_path):
    folder: Any = str(tmp_path)
    assert RunnerSettings(weights_dir=folder).weights_dir == tmp_path
    number: Any = 3
    with pytest.raises(RunnerError, match="WEIGHTS_DIR is 3; allowed: path. Set it"):
        RunnerSettings(weights_dir=number)
