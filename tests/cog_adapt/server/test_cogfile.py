from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cog_adapt.server.cogfile import Cogfile, read_cogfile
from cog_adapt.server.errors import ConfigError

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
    command: Any = cogfile.build.run[1]
    assert command.mounts[0].target == "/etc/pip.conf"
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
        ("builds: {}", "builds", "no such key", "build, run, predict"),
        ("build: {python_version: '3.11', gpus: 1}", "build.gpus", "no such key", "gpu, cuda"),
        ("build: {}", "build.python_version", "is required", "add it"),
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
        ("concurrency: {}", "concurrency.max", "is required", "add it"),
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


def mistakes(folder: Path, text: str) -> list[str]:
    """The lines of the refusal, without the folder."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_every_mistake_is_named_with_its_line(tmp_path):
    text = """\
build:
  python_version: "3.9"

  run:
    - echo fine
    - command: pip install x
      mounts:
        - {type: secret, id: a, target: /a}
        - type: bind
          id: b
run: predict
environment:
  - FINE=1
  - WRONG
concurrency: {}
"""
    assert [line.partition(" is ")[0] for line in mistakes(tmp_path, text)] == [
        "cog.yaml:2: build.python_version",
        "cog.yaml:9: build.run.1.mounts.1.type",
        "cog.yaml:9: build.run.1.mounts.1.target",
        "cog.yaml:11: run",
        "cog.yaml:15: concurrency.max",
        "cog.yaml:14: environment.1",
    ]


def test_each_unknown_key_has_its_own_line(tmp_path):
    found = mistakes(tmp_path, "run: a.py:A\nruns: 1\nimages: 2")
    assert [line.partition(";")[0] for line in found] == [
        "cog.yaml:2: runs: no such key",
        "cog.yaml:3: images: no such key",
    ]


def test_a_key_that_is_there_twice_is_refused_with_both_lines(tmp_path):
    text = "run: a.py:A\nbuild:\n  python_version: '3.11'\n  python_version: '3.12'\nrun: b.py:B"
    assert mistakes(tmp_path, text) == [
        "cog.yaml:5: run is here a second time, after line 1; keep one.",
        "cog.yaml:4: python_version is here a second time, after line 3; keep one.",
    ]


def test_the_same_key_in_two_mappings_is_allowed(tmp_path):
    text = "weights: [{name: a, target: /a}, {name: b, target: /b}]"
    assert [one.name for one in read(tmp_path, text).weights] == ["a", "b"]


def test_a_merged_key_may_be_overridden(tmp_path):
    merged = "build:\n  <<: {python_version: '3.11', gpu: true}\n  gpu: false"
    assert not read(tmp_path, merged).build.gpu


def test_names_like_reserved_ones_are_allowed(tmp_path):
    text = "environment: [PATHS=1, MY_PATH=1, CUDA=1, XCUDA_HOME=1]"
    assert len(read(tmp_path, text).environment) == 4


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.yaml does not exist"):
        read_cogfile(tmp_path / "missing.yaml")


def test_what_is_no_yaml_is_refused_with_line_and_column(tmp_path):
    assert mistakes(tmp_path, "a: 1\nb: [")[0].startswith("cog.yaml:2:5: no YAML")
    assert mistakes(tmp_path, "run: a.py:A\n\tb: 1")[0].startswith("cog.yaml:2:1: no YAML")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"run: \xff", "UTF-8"),
        (b"run: \x00", "special characters"),
        (b"image: 2026-99-99", "month must be"),
        (b"image: !!python/object:os.system x", "cog.yaml:1:8: no YAML"),
        (b"image: &a [*a]", "image is"),
    ],
)
def test_a_file_that_holds_no_plain_values_is_refused(tmp_path, content, reason):
    path = tmp_path / "cog.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        read_cogfile(path)


def test_our_own_cog_yaml_is_valid():
    path = Path(__file__).parents[3] / "cog.yaml"
    if not path.exists():
        pytest.skip("the repository has no cog.yaml yet")
    cogfile = read_cogfile(path)
    assert cogfile.predict_reference
    assert cogfile.train
    for reference in (cogfile.predict_reference, cogfile.train):
        assert (path.parent / reference.partition(":")[0]).is_file()
    if cogfile.build and cogfile.build.python_requirements:
        assert (path.parent / cogfile.build.python_requirements).is_file()


def test_without_tracing_an_image_gets_the_environment_alone(tmp_path):
    assert read(tmp_path, "environment: [A=1]").variables == {"A": "1"}
    off = read(tmp_path, "observability: {traces: {trace_header: x, trace_header_format: jaeger}}")
    assert list(off.variables.values()) == ["true", "false", "x", "jaeger"]


def test_an_image_gets_the_environment_and_how_to_trace(tmp_path):
    traces = "traces: {enabled: true, sampler: ratio, sampler_arg: 1.0}"
    text = f"environment: [A=1=2, COG_TRACE_SAMPLER=mine]\nobservability: {{{traces}}}"
    switches = {"COG_TRACE_CONFIGURED": "true", "COG_TRACE_ENABLED": "true", "A": "1=2"}
    sampler = {"COG_TRACE_SAMPLER": "mine", "COG_TRACE_SAMPLER_ARG": "1"}
    assert read(tmp_path, text).variables == switches | sampler
