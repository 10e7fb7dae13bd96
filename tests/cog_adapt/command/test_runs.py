"""Runs against this project's server, from flags to output and exit code."""

import json

import pytest


def test_an_output_is_json_and_what_was_printed_goes_to_standard_error(run):
    done = run("predict", "-i", "text=hello", "-i", "scale=2.5")
    assert done.code == 0
    assert json.loads(done.out) == {"file": None, "mask": None, "score": 2.5}
    assert done.err == "text 'hello' None []\nto standard error\n"


def test_files_go_in_and_come_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("one")
    (tmp_path / "two.txt").write_text("two")
    done = run(
        "predict",
        *("-i", "file=@in.txt", "-i", "files=@in.txt", "-i", "files=@two.txt"),
        *("-i", "kind=files"),
    )
    assert "one ['one', 'two']" in done.err
    assert json.loads(done.out) == {
        "file": "output.file.txt",
        "mask": "output.mask.png",
        "score": 1.0,
    }
    assert (tmp_path / "output.file.txt").read_text() == "A"
    assert (tmp_path / "output.mask.png").read_text() == "B"
    assert "written: output.mask.png" in done.err


def test_a_training_writes_its_weights(run, tmp_path):
    (tmp_path / "config.json").write_text('{"rate": 1}')
    done = run("train", "-i", "size=3", "-i", "config=@config.json")
    assert (done.code, json.loads(done.out)) == (0, {"weights": "weights.safetensors"})
    assert "training 3 {'rate': 1}" in done.err
    assert (tmp_path / "weights.safetensors").read_bytes().endswith(b'{"a":1}')


def test_json_is_the_whole_final_object(run, tmp_path):
    done = run("predict", "-i", "pauses=1", "--json")
    assert json.loads(done.out)["metrics"]["adaptation"] == {"step": 1}
    again = run("predict", "--json", "-o", "all.json")
    assert again.out == ""
    assert json.loads((tmp_path / "all.json").read_text())["status"] == "succeeded"


def test_a_failure_is_told_with_its_reason_and_traceback(run):
    done = run("predict", "-i", "kind=fail")
    assert (done.code, done.out) == (1, "")
    assert "Traceback" in done.err
    assert "failed: " in done.err.splitlines()[-1]
    assert "ValueError: told to" in done.err.splitlines()[-1]
    assert json.loads(run("predict", "-i", "kind=fail", "--json").out)["status"] == "failed"


def test_wrong_inputs_are_all_named_before_anything_runs(run):
    done = run(
        "predict",
        *("-i", "txt=x", "-i", "pauses=many", "-i", "steps=1", "-i", "steps=2"),
        *("-i", "kind=other", "-i", "scale=nan"),
    )
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert lines[0].startswith("error: txt is no input; allowed: text, file, files, pauses")
    assert lines[0].endswith("Did you mean text?")
    assert lines[1:] == [
        "pauses is 'many': allowed: a whole number.",
        "steps is '1', '2': allowed: one value. Give the flag once.",
        "scale is 'nan': allowed: a number.",
        'kind: "other" is not one of ["plain","files","fail"]',
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-i", "text"], "-i text: allowed: name=value"),
        (["-i", "=x"], "-i =x: allowed: name=value"),
        (["-i", "file=@missing"], "there is no file missing"),
        (["-o", "missing/out"], "there is no folder missing"),
        (["--env", "A=1"], "with --url leave it out"),
        (["-i", "pauses=1001"], "pauses: 1001 is greater than the maximum of 1000"),
        (["--bad"], "No such option"),
    ],
)
def test_a_wrong_flag_is_refused_with_exit_code_2(run, arguments, reason):
    done = run("predict", *arguments)
    assert done.code == 2
    assert reason in done.err


def test_a_wrong_key_is_told_with_the_remedy(run, mirror):
    done = run("predict", "--key", "wrong")
    assert done.code == 1
    assert "answered 401" in done.err
    assert "--key" in done.err
