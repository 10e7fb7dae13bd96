from pathlib import Path

import pytest
from pydantic import ValidationError

from runner.errors import ConfigError
from server.cogfile import Cogfile, read_cogfile

WHOLE = """\
build:
  python_version: "3.11"
  gpu: true
  cuda: "12.6"
  cudnn: "9"
  sdk_version: 0.23.1
  python_requirements: requirements.txt
  system_packages: [ffmpeg]
  pre_install:
  run:
    - echo hello
    - command: pip install x
      mounts: [{type: secret, id: pip, target: /etc/pip.conf}]
run: predict.py:Predictor
train: train.py:train
image: registry.example.com/name
model: owner/name
concurrency: {max: 2, default_target: 1}
environment: [HF_HOME=/cache, EMPTY=, "LINES=a\\nb"]
weights:
  - name: base
    target: /weights
    source: {uri: "hf://owner/name", include: ["*.safetensors"], exclude: []}
observability:
  config: telemetry.py
  traces: {enabled: true, sampler: ratio, sampler_arg: 1, trace_header_format: w3c}
"""


def read(folder: Path, text: str) -> Cogfile:
    path = folder / "cog.yaml"
    path.write_text(text)
    return read_cogfile(path)


def test_reads_every_key(tmp_path):
    cogfile = read(tmp_path, WHOLE)
    assert cogfile.predict_reference == "predict.py:Predictor"
    assert cogfile.train == "train.py:train"
    assert cogfile.build.run[0] == "echo hello"
    assert cogfile.build.run[1].mounts[0].target == "/etc/pip.conf"
    assert cogfile.environment == ("HF_HOME=/cache", "EMPTY=", "LINES=a\nb")
    assert cogfile.observability.traces.trace_header_format == "w3c"
    unset = {"predict"}
    assert {name for name in Cogfile.model_fields if getattr(cogfile, name) is None} == unset


def test_the_older_name_of_run_counts(tmp_path):
    assert read(tmp_path, "predict: predict.py:Predictor").predict_reference == (
        "predict.py:Predictor"
    )


def test_what_was_read_cannot_be_changed(tmp_path):
    cogfile = read(tmp_path, WHOLE)
    with pytest.raises(ValidationError, match="frozen"):
        cogfile.train = None


@pytest.mark.parametrize(
    ("text", "key", "value", "allowed"),
    [
        ("builds: {}", "the file", "builds", "build, run, predict"),
        ("build: {python_version: '3.11', gpus: 1}", "build", "gpus", "gpu, cuda"),
        ("build: {}", "build.python_version", "{}", "required"),
        ("build: {python_version: 3.10}", "build.python_version", "3.1", "string"),
        ("build: {python_version: '3.9'}", "build.python_version", "'3.9'", '"3.10" to "3.13"'),
        ("build: {python_version: '3.14'}", "build.python_version", "'3.14'", '"3.10" to "3.13"'),
        ("build: {python_version: '3.11', gpu: 'yes'}", "build.gpu", "'yes'", "boolean"),
        ("build: {python_version: '3.11', cuda: 12.6}", "build.cuda", "12.6", "string"),
        (
            "build: {python_version: '3.11', system_packages: ffmpeg}",
            "build.system_packages",
            "'ffmpeg'",
            "a list",
        ),
        (
            "build: {python_version: '3.11', python_requirements: a, python_packages: [b]}",
            "build",
            "'a'",
            "keep the first",
        ),
        (
            "build: {python_version: '3.11', run: [{command: a, mounts: [{type: bind}]}]}",
            "mounts.0.type",
            "'bind'",
            "'secret'",
        ),
        ("run: predict:Predictor", "run", "'predict:Predictor'", "FILE.py:NAME"),
        ("run: predict.py", "run", "'predict.py'", "FILE.py:NAME"),
        ("train: train.py:1", "train", "'train.py:1'", "FILE.py:NAME"),
        ("{run: a.py:A, predict: a.py:A}", "the file", "'a.py:A'", "keep run"),
        ("concurrency: {max: 0}", "concurrency.max", "0", "greater than or equal to 1"),
        ("concurrency: {}", "concurrency.max", "{}", "required"),
        ("environment: [NOVALUE]", "environment.0", "'NOVALUE'", "NAME=VALUE"),
        ("environment: [A=1, PATH=/bin]", "environment.1", "'PATH=/bin'", "not one reserved"),
        ("environment: [CUDA_HOME=/x]", "environment.0", "'CUDA_HOME=/x'", "not one reserved"),
        (
            "weights: [{name: a, target: /a, source: {uri: s3://a}}]",
            "weights.0.source.uri",
            "'s3://a'",
            "hf://",
        ),
        ("observability: {config: a.txt}", "observability.config", "'a.txt'", ".py"),
        (
            "observability: {traces: {trace_header_format: b3}}",
            "observability.traces.trace_header_format",
            "'b3'",
            "'w3c' or 'jaeger'",
        ),
        ("- a", "the file", "['a']", "a mapping"),
        ("", "the file", "None", "a mapping"),
    ],
)
def test_a_mistake_is_refused_with_its_key_its_value_and_what_is_allowed(
    tmp_path, text, key, value, allowed
):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert str(tmp_path / "cog.yaml") in message
    assert all(part in message for part in (key, value, allowed)), message


def test_every_mistake_is_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "{run: predict, train: train, image: 3}")
    assert [line.split()[0] for line in str(caught.value).splitlines()[1:]] == [
        "run",
        "train",
        "image",
    ]


def test_names_like_reserved_ones_are_allowed(tmp_path):
    text = "environment: [PATHS=1, MY_PATH=1, CUDA=1, XCUDA_HOME=1]"
    assert len(read(tmp_path, text).environment) == 4


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.yaml does not exist"):
        read_cogfile(tmp_path / "missing.yaml")


def test_what_is_no_yaml_is_refused_with_its_line(tmp_path):
    with pytest.raises(ConfigError, match="line 2"):
        read(tmp_path, "a: 1\nb: [")


def test_our_own_cog_yaml_is_valid():
    path = Path(__file__).parents[2] / "cog.yaml"
    if not path.exists():
        pytest.skip("the repository has no cog.yaml yet")
    cogfile = read_cogfile(path)
    assert cogfile.predict_reference
    assert cogfile.train
    for reference in (cogfile.predict_reference, cogfile.train):
        assert (path.parent / reference.partition(":")[0]).is_file()
    if cogfile.build and cogfile.build.python_requirements:
        assert (path.parent / cogfile.build.python_requirements).is_file()
