import json
import stat
import sys

import pytest

from cog_adapt.server.command.openapi import find_references, main, write_atomically
from cog_adapt.server.errors import ConfigError


def test_references_come_from_the_environment_first(tmp_path):
    (tmp_path / "cog.yaml").write_text("{run: a.py:A, train: b.py:b}")
    assert find_references({}, tmp_path) == {"predict": "a.py:A", "train": "b.py:b"}
    environment = {"COG_PREDICT_TYPE_STUB": "c.py:C"}
    assert find_references(environment, tmp_path) == {"predict": "c.py:C", "train": "b.py:b"}
    environment["COG_TRAIN_TYPE_STUB"] = "d.py:d"
    assert find_references(environment, tmp_path) == {"predict": "c.py:C", "train": "d.py:d"}


def test_a_folder_without_cog_yaml_needs_the_environment(tmp_path):
    environment = {"COG_PREDICT_TYPE_STUB": "c.py", "COG_TRAIN_TYPE_STUB": ""}
    assert find_references(environment, tmp_path) == {"predict": "c.py"}
    with pytest.raises(ConfigError, match="COG_PREDICT_TYPE_STUB"):
        find_references({}, tmp_path)


def test_a_wrong_cog_yaml_is_refused(tmp_path):
    (tmp_path / "cog.yaml").write_text("run: a")
    with pytest.raises(ConfigError, match=r"FILE\.py:NAME"):
        find_references({"COG_PREDICT_TYPE_STUB": "c.py"}, tmp_path)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / ".cog" / "openapi_schema.json"
    write_atomically(path, "old")
    with path.open() as reader:
        write_atomically(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a predictor that prints as it is imported."""
    (tmp_path / "cog.yaml").write_text("run: predict.py:Predictor")
    (tmp_path / "predict.py").write_text(
        "print('loading')\nclass Predictor:\n    def run(self, text: str) -> str: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COG_PREDICT_TYPE_STUB", raising=False)
    monkeypatch.delenv("COG_TRAIN_TYPE_STUB", raising=False)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_the_command_prints_the_document_and_nothing_else(folder, capsys):
    main([])
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["components"]["schemas"]["Input"]["properties"]) == ["text"]


def test_the_command_writes_the_document(folder, capsys):
    main(["--output", ".cog/openapi_schema.json"])
    written = json.loads((folder / ".cog" / "openapi_schema.json").read_text())
    assert written["paths"]["/predictions"]
    assert capsys.readouterr().out == ""


def test_the_command_says_what_is_wrong(folder):
    (folder / "cog.yaml").write_text("run: missing.py:Predictor")
    with pytest.raises(SystemExit, match=r"^error: .*missing\.py"):
        main(["--output", "schema.json"])
    assert not (folder / "schema.json").exists()
