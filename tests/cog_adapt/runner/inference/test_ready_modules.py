"""The module that answers a query is made ready once, for its owner."""

from dataclasses import replace

import pytest

from cog_adapt.runner.errors import UnavailableError, WeightsError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from tests.cog_adapt.mixed import adapter, loaded


def test_what_is_ready_is_found_by_owner_and_adapter_or_label_set():
    model = loaded()
    modules = model.predictions.modules
    for query in (Query(["a"], adapter(model, 1), owner="ann"), Query(["a"], None, ("x", "y"))):
        assert modules.ready(query) is None
        served = finished(modules.serving(query))
        assert modules.ready(query) is served
        assert finished(modules.serving(query)) is served
    assert modules.ready(Query(["a"], adapter(model, 1), owner="bob")) is None
    assert modules.ready(Query(["a"], None, ("y", "x"))) is None


def test_an_adapter_of_another_base_is_refused():
    model = loaded()
    other = replace(adapter(model, 1), base="0" * 16)
    with pytest.raises(WeightsError, match="was made on base"):
        finished(model.predictions.modules.serving(Query(["a"], other)))


def test_nothing_is_ready_once_the_base_has_changed():
    model = loaded()
    query = Query(["a"], adapter(model, 1))
    finished(model.predictions.modules.serving(query))
    model.base.damage = ("a weight",)
    assert model.predictions.modules.ready(query) is None
    with pytest.raises(UnavailableError, match="a weight"):
        finished(model.predictions.modules.serving(query))
