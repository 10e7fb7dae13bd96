"""A head that is fitted to many examples holds up no prediction."""

import os
import sys
import threading
from dataclasses import replace

import pytest

from cog_adapt import ModelRunner
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.heads import closed_form
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated

FIT = "cog_adapt.runner.heads.objective.fit_classes"


@pytest.mark.parametrize("method", ["auto", "head"])
def test_predictions_are_answered_while_a_head_is_fitted_to_many_examples(monkeypatch, method):
    began, answered = threading.Event(), threading.Event()
    fit = closed_form.fit_classes

    def waiting(*features, **options):
        began.set()
        assert answered.wait(60)
        return fit(*features, **options)

    monkeypatch.setattr(FIT, waiting)
    rows = separated(1_200)
    recipe = replace(FEW_STEPS, method=method, learning_rate=0.0, max_steps=1)
    with ModelRunner(Featured(), RunnerSettings(device=DEVICE)) as runner:
        adapting = threading.Thread(target=runner.adapt, args=(rows, recipe))
        adapting.start()
        assert began.wait(60)
        assert len(runner.predict([[0.0] * WIDTH], labels=LABELS)) == 1
        answered.set()
        adapting.join(60)
        assert not adapting.is_alive()


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
