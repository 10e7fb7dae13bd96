"""While a model is loaded garbage is collected rarely; afterwards as its process has chosen."""

import gc

import pytest

from cog_adapt.rare_collections import rare_collections
from tests.cog_adapt.contract.serving import serving

CODE = """
import gc

from cog import BaseRunner

AT_IMPORT = gc.get_threshold()[0]


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.seen = [AT_IMPORT, gc.get_threshold()[0]]

    def run(self) -> list[int]:
        return [*self.seen, gc.get_threshold()[0]]
"""


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_model_process_collects_rarely_until_it_is_ready(tmp_path):
    (tmp_path / "collecting.py").write_text(CODE)
    with serving("mirror", tmp_path, predict="collecting.py:Predictor") as server:
        at_import, in_setup, in_a_run = server.output()
    assert at_import == in_setup == 5_000
    assert in_a_run == 700


def test_thresholds_come_back_after_an_error(thresholds):
    with pytest.raises(ZeroDivisionError), rare_collections():
        _ = 1 / 0
    assert gc.get_threshold() == (700, 10, 10)


def test_thresholds_that_the_users_code_has_set_are_kept(thresholds):
    with rare_collections():
        gc.set_threshold(1_000, 5, 5)
    assert gc.get_threshold() == (1_000, 5, 5)
