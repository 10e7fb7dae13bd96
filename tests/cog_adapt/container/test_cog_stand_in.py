"""Stand-in for the cog CLI, real cog runtime.

The cog command line cannot be had here. What `cog build` would make of this repository is made
from its Dockerfile up to the installed requirements, which give the same, and from there on as
Cog does it; what `cog predict` and `cog train` would send is sent.
"""

import base64
import re
import shutil

import pytest

from cog_adapt.server.command.cog_server import write_schema
from gradient_check.tests.present import present
from tests.cog_adapt.container.base_image import ROOT
from tests.cog_adapt.container.containers import example_file, running

OPTIONS = ("--shm-size", "6g", "-e", "LOG_FORMAT=console")
TRAIN = ("python", "-m", "cog.server.http", "--x-mode", "train")
LIKE_COG = """
COPY . /src
ENV COG_PREDICT_TYPE_STUB=predict.py:Predictor COG_TRAIN_TYPE_STUB=train.py:Trainer
ENV COG_MAX_CONCURRENCY=8
EXPOSE 5000
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "cog.server.http"]
"""


@pytest.fixture(scope="module")
def cog_image(build, tmp_path_factory) -> str:
    """What `cog build` would make."""
    context = tmp_path_factory.mktemp("cog") / "src"
    context.mkdir()
    for name in (
        ".dockerignore",
        "cog.yaml",
        "predict.py",
        "train.py",
        "task.py",
        "encoder.py",
        *(path.name for path in ROOT.glob("require*")),
    ):
        shutil.copy(ROOT / name, context)
    for package in ("cog_adapt", "gradient_check"):
        shutil.copytree(ROOT / package, context / package)
    write_schema(context, predict="predict.py:Predictor", train="train.py:Trainer")
    dockerfile = (ROOT / "Dockerfile").read_text()
    installed = re.match(r"(?s).*?\n(?=COPY cog\.yaml )", dockerfile)
    return build("cog-adapt-test-cog", present(installed)[0] + LIKE_COG, context)


@pytest.fixture(scope="module")
def cog(engine, cog_image):
    with running(engine, cog_image, *OPTIONS) as made:
        yield made


def test_cog_runs_in_it_and_checks_inputs(cog):
    assert "coglet" in cog.get("/health-check")["version"]
    answer = cog.client.post("/predictions", json={"input": {"steps": "many"}, "context": {}})
    assert answer.status_code == 422


def test_cog_predict_adapts_to_a_file_of_examples(cog):
    values = {"text": "Where is my parcel?", "examples_file": example_file("tickets.jsonl")}
    output = cog.succeed("/predictions", values | {"steps": 10})
    losses = output["report"]["losses"]
    assert losses[-1] < losses[0]


def test_cog_train_gives_weights_that_cog_predict_takes(engine, cog, cog_image):
    with running(engine, cog_image, *OPTIONS, command=TRAIN) as trainer:
        values = {"examples_file": example_file("tickets_train.jsonl"), "steps": 10}
        weights = trainer.succeed("/trainings", values)["weights"]
    assert base64.b64decode(weights.partition(",")[2])
    output = cog.succeed("/predictions", {"text": "Where is my parcel?", "weights": weights})
    assert output["predictions"][0]["label"]
