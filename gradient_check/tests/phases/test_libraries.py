"""Code of installed libraries is told from the user's own."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gradient_check.phases.libraries import is_of_a_library


class Own(torch.nn.Module):
    """A module of the user's."""


def test_a_library_is_known_by_its_folder() -> None:
    assert is_of_a_library(torch.nn.Linear)
    assert is_of_a_library(torch.nn.Linear(1, 1))
    assert not is_of_a_library(Own())
    assert not is_of_a_library(lambda: None)
    assert not is_of_a_library(object())


@pytest.mark.parametrize("installed", [True, False])
def test_a_library_in_another_folder_is_known_by_its_metadata(
    tmp_path: Path, monkeypatch: Any, installed: bool
) -> None:
    name = f"far_away_{int(installed)}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("def hook(): pass\n")
    if installed:
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert is_of_a_library(importlib.import_module(name).hook) is installed
    finally:
        del sys.modules[name]
