from pathlib import Path

import pytest
from pydantic import ValidationError

from cog_adapt.server.cogfile import Cogfile, read_cogfile
from cog_adapt.server.errors import ConfigError
from gradient_check.tests.present import present

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


def test_reads_what_the_server_needs_and_leaves_the_rest_to_cog(tmp_path):
    cogfile = read(tmp_path, WHOLE)
    assert cogfile.predict_reference == "predict.py:Predictor"
    assert cogfile.train == "train.py:train"
    assert present(cogfile.concurrency).max == 2
    assert cogfile.environment == ["HF_HOME=/cache", "EMPTY=", "LINES=a\nb"]
    assert present(present(cogfile.observability).traces).trace_header_format == "w3c"
    assert "build" not in Cogfile.model_fields


@pytest.mark.parametrize("text", ["builds: {}", "build: 3", "concurrency: {least: 0}", "1: a"])
def test_a_key_that_nobody_reads_may_be_anything(tmp_path, text):
    assert read(tmp_path, f"run: a.py:A\n{text}").predict_reference == "a.py:A"


def test_a_key_without_a_value_counts_as_absent(tmp_path):
    cogfile = read(tmp_path, "run:\nenvironment:\nconcurrency:\nobservability:")
    assert cogfile == Cogfile()
    assert cogfile.variables == {}


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
        ("run: predict:Predictor", "run", "'predict:Predictor'", "FILE.py:NAME"),
        ("run: predict.py", "run", "'predict.py'", "FILE.py:NAME"),
        ("train: train.py:1", "train", "'train.py:1'", "FILE.py:NAME"),
        ("{run: a.py:A, predict: a.py:A}", "the file", "'a.py:A'", "keep run"),
        ("concurrency: {max: 0}", "concurrency.max", "0", "greater than or equal to 1"),
        ("concurrency: {max: '2'}", "concurrency.max", "'2'", "a valid integer"),
        ("concurrency: 2", "concurrency", "2", "a mapping"),
        ("environment: [NOVALUE]", "environment.0", "'NOVALUE'", "NAME=VALUE"),
        ("environment: [A=1, PATH=/bin]", "environment.1", "'PATH=/bin'", "not one reserved"),
        ("environment: [CUDA_HOME=/x]", "environment.0", "'CUDA_HOME=/x'", "not one reserved"),
        ("environment: A=1", "environment", "'A=1'", "a valid list"),
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


def test_every_mistake_has_a_line_of_its_own(tmp_path):
    text = "run: predict\nenvironment: [FINE=1, WRONG]\nconcurrency: {max: 0}"
    assert [line.partition(" is ")[0] for line in mistakes(tmp_path, text)] == [
        "cog.yaml: run",
        "cog.yaml: concurrency.max",
        "cog.yaml: environment.1",
    ]


def test_names_like_reserved_ones_are_allowed(tmp_path):
    text = "environment: [PATHS=1, MY_PATH=1, CUDA=1, XCUDA_HOME=1]"
    assert len(present(read(tmp_path, text).environment)) == 4


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.yaml does not exist"):
        read_cogfile(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: 1\nb: [", "found '<stream end>' in \"cog.yaml\", line 2, column 5"),
        (b"run: a.py:A\n\tb: 1", "line 2, column 1"),
        (b"run: \xff", "invalid start byte"),
        (b"run: \x00", "special characters"),
        (b"image: 2026-99-99", "month must be"),
        (b"image: !!python/object:os.system x", "line 1, column 8"),
        (b"run: a\n---\nrun: b", "expected a single document"),
    ],
)
def test_what_is_no_yaml_is_refused_where_it_stands(tmp_path, content, reason):
    (tmp_path / "cog.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_cogfile(tmp_path / "cog.yaml")
    message = str(caught.value).replace(f"{tmp_path}/", "")
    assert message.startswith("cog.yaml cannot be read as YAML: ")
    assert reason in message
    assert message.endswith(". Correct it.")
    assert "\n" not in message


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_cogfile(tmp_path)


def test_our_own_cog_yaml_is_valid():
    path = Path(__file__).parents[3] / "cog.yaml"
    if not path.exists():
        pytest.skip("the repository has no cog.yaml yet")
    cogfile = read_cogfile(path)
    assert cogfile.predict_reference
    assert cogfile.train
    for reference in (cogfile.predict_reference, cogfile.train):
        assert (path.parent / reference.partition(":")[0]).is_file()


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
