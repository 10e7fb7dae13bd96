"""A mistake in a benchmark's options is told before anything is measured."""

import pytest

from bench.report import arguments


def refusal(monkeypatch, capsys, *options):
    monkeypatch.setattr("sys.argv", ["bench", *options])
    with pytest.raises(SystemExit) as stopped:
        arguments("Measure.")
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("threads", ["0", "-3"])
def test_threads_that_torch_refuses_are_named(monkeypatch, capsys, threads):
    said = refusal(monkeypatch, capsys, "--threads", threads)
    assert f"--threads is {threads}: at least 1, such as 2" in said


def test_a_folder_is_no_output(monkeypatch, capsys, tmp_path):
    said = refusal(monkeypatch, capsys, "--output", str(tmp_path))
    assert f"--output is {tmp_path}: a folder; name a file in it" in said


def test_an_output_below_a_file_can_not_be_written(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "numbers.json"
    said = refusal(monkeypatch, capsys, "--output", str(output))
    assert f"--output is {output}: its folder can't be written to" in said
    assert "name a file in another" in said


def test_an_output_that_can_be_written_is_not_begun(monkeypatch, tmp_path):
    output = tmp_path / "new" / "numbers.json"
    monkeypatch.setattr("sys.argv", ["bench", "--output", str(output), "--threads", "1"])
    assert arguments("Measure.").output == output
    assert list(output.parent.iterdir()) == []
