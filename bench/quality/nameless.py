"""Contestants without label names on pictures or a table, by frozen features, and their mixtures.

No label has a name that the encoders know, so there is no zero-shot answer: the prior is that all
labels are equally likely.
"""

from collections.abc import Mapping
from functools import partial

import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from bench.quality.cases import Case
from bench.quality.closed_forms import FROZEN, Contestant, closed_form
from cog_adapt.runner.heads.closed_form import Mixture

_NEIGHBOURS = 5

PRIOR, AS_IS = "prior", "mixture for names"
MIXTURES: Mapping[str, Mixture] = {
    AS_IS: Mixture(),
    "root of the likelihood": Mixture(certainty=0.5),
    "centroids and a weak ridge": Mixture((0.0,), (1.0,), 0.25, 0.5, narrows=True),
    "centroids alone": Mixture((0.0,), ()),
    "centroids and three ridges": Mixture((0.0,), (0.3, 1.0, 3.0), 3.0, 0.5),
    "four ridges": Mixture((), (0.3, 1.0, 3.0, 10.0), certainty=0.5),
    "three strong ridges": Mixture((), (1.0, 3.0, 10.0), certainty=0.5),
    "three narrow ridges": Mixture((), (0.3, 1.0, 3.0), certainty=0.5, narrows=True),
}
"""Mixtures to choose from, of four heads at most; the first is the one for labels with names."""


def _prior(case: Case) -> Tensor:
    classes = len(case.names)
    return torch.full((len(case.test), classes), 1 / classes)


def _neighbours(case: Case) -> Tensor:
    """Count the labels of the nearest examples, and add one to each count."""
    count = min(_NEIGHBOURS, len(case.features))
    model = KNeighborsClassifier(count).fit(case.features.numpy(), case.targets.numpy())
    found = torch.from_numpy(model.predict_proba(case.test.numpy()))
    return (found * count + 1) / (count + found.shape[1])


SINGLE: Mapping[str, Contestant] = {
    "centroids": FROZEN["centroids without names"],
    "logistic": FROZEN["logistic"],
    "neighbours": _neighbours,
}
"""Contestants without any choice."""


CONTESTANTS: Mapping[str, Contestant] = {
    PRIOR: _prior,
    **SINGLE,
    **{name: partial(closed_form, mixture=mixture) for name, mixture in MIXTURES.items()},
}
