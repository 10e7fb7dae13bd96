"""Contestants that answer from frozen features alone, and mixtures of heads to choose from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from bench.quality.cases import Case
from bench.quality.records import Key, Work
from bench.quality.scores import Scores, score_classes
from cog_adapt.runner.heads.closed_form import MIXTURE, OF_FEW, Mixture, fit_classes
from cog_adapt.runner.heads.linear_head import LinearHead

_SCALE = 10.0  # of a cosine, as the task's own start has it
_CENTROID_SHARE = 0.7

Contestant = Callable[[Case], Tensor]
"""Returns the probabilities (M, K) of a case's test texts."""

BEFORE = "names count much"
LITTLE = OF_FEW
MIXTURES: Mapping[str, Mixture] = {
    BEFORE: replace(MIXTURE, narrows=True),
    "names count little": LITTLE,
    "names count little or much": replace(LITTLE, prior_examples=(0.0, 1.0, 4.0)),
    "three heads": replace(LITTLE, prior_examples=(0.0, 2.0)),
    "centroids alone": replace(LITTLE, prior_examples=(0.0, 1.0, 2.0, 4.0), penalties=()),
}
"""Mixtures to choose from, of four heads at most, which bounds the cost of a fit.

The first is the package's own, except for its scales.
"""


def _zero_shot(case: Case) -> Tensor:
    return (case.test @ case.names.T).softmax(1)


def _centroids(case: Case, share: float) -> Tensor:
    labels = range(len(case.names))
    means = torch.stack([case.features[case.targets == label].mean(0) for label in labels])
    names = F.normalize(case.names, dim=1)
    rows = F.normalize(F.normalize(means, dim=1).lerp(names, 1 - share), dim=1)
    return (_SCALE * case.test @ rows.T).softmax(1)


def _logistic(case: Case) -> Tensor:
    model = LogisticRegression(max_iter=1000).fit(case.features.numpy(), case.targets.numpy())
    return torch.from_numpy(model.predict_proba(case.test.numpy()))


def closed_form(case: Case, mixture: Mixture = MIXTURE) -> Tensor:
    """Answer by the package's closed form, of a mixture of heads."""
    prior = LinearHead(case.names, torch.zeros(len(case.names)))
    form = fit_classes(case.features, case.targets, prior, mixture)
    return form.head(case.test).softmax(1)


FROZEN: Mapping[str, Contestant] = {
    "zero-shot": _zero_shot,
    "centroids without names": lambda case: _centroids(case, 1.0),
    "centroids": lambda case: _centroids(case, _CENTROID_SHARE),
    "logistic": _logistic,
}
"""Contestants without any choice."""

CONTESTANTS: Mapping[str, Contestant] = {
    **FROZEN,
    **{name: partial(closed_form, mixture=mixture) for name, mixture in MIXTURES.items()},
}


def answers(
    cases: Iterable[Case],
    wanted: Callable[[Case], Sequence[str]],
    contestants: Mapping[str, Contestant],
) -> Work:
    """Yield the wanted contestants for each case."""
    for case in cases:
        for name in wanted(case):
            key = Key(case.row.name, case.seed, name, case.digest)
            yield key, partial(_scored, contestants[name], case)


def _scored(contestant: Contestant, case: Case) -> Scores:
    return score_classes(contestant(case), case.wanted)
