"""A head that is fitted to many examples holds up no prediction."""

import importlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from cog_adapt import ModelRunner
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.heads import closed_form
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated

FIT = "cog_adapt.runner.heads.objective.fit_classes"
SHARE = "cog_adapt.runner.heads.objective.wrong_label_share"
CALIBRATION = "cog_adapt.runner.heads.objective.calibrate"


@pytest.mark.parametrize(
    ("algebra", "method"), [(FIT, "auto"), (FIT, "head"), (SHARE, "auto"), (CALIBRATION, "auto")]
)
@pytest.mark.parametrize("count", [120, 1_200])
def test_predictions_are_answered_while_a_head_is_fitted_to_many_examples(
    monkeypatch, algebra, method, count
):
    room, _, name = algebra.rpartition(".")
    compute = getattr(importlib.import_module(room), name)
    answers: list[object] = []

    def computing(*features, **options):
        asked = pool.submit(runner.predict, [[0.0] * WIDTH], labels=LABELS)
        answers.append(asked.result(timeout=20))
        return compute(*features, **options)

    rows = separated(count)
    recipe = replace(FEW_STEPS, method=method, learning_rate=0.0, max_steps=1)
    with (
        ModelRunner(Featured(), RunnerSettings(device=DEVICE)) as runner,
        ThreadPoolExecutor() as pool,
    ):
        monkeypatch.setattr(algebra, computing)
        runner.adapt(rows, recipe)
    assert answers


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has priorities of threads")
def test_a_large_fit_has_a_lower_priority_than_predictions(monkeypatch):
    found = []
    fit = closed_form.fit_classes

    def noting(*features, **options):
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return fit(*features, **options)

    monkeypatch.setattr(FIT, noting)
    with ModelRunner(Featured(), RunnerSettings(device=DEVICE)) as runner:
        runner.adapt(separated(1_200), replace(FEW_STEPS, method="head", learning_rate=0.0))
    assert min(found) > os.getpriority(os.PRIO_PROCESS, 0)


def test_what_a_fit_raises_reaches_the_caller(monkeypatch):
    def failing(*_features, **_options):
        raise MemoryError("no room for the fit")

    monkeypatch.setattr(FIT, failing)
    rows = separated(1_200)
    with (
        ModelRunner(Featured(), RunnerSettings(device=DEVICE)) as runner,
        pytest.raises(Exception, match="no room for the fit"),
    ):
        runner.adapt(rows, replace(FEW_STEPS, method="head", learning_rate=0.0))
