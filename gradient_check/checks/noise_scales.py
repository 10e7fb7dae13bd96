"""Recognises parameters that shape the noise of training, which inference need not use.

Examples are those of a noisy gate, or of a posterior's spread.
"""

import re
from collections.abc import Collection, Mapping

from torch import nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.recording import Recorder

_ADDITIONS = re.compile(r"_*[ri]?(add|sub)_*")  # added noise does not depend on the other term
_DRAWS = re.compile(r"rand|normal|uniform_|bernoulli|exponential_|multinomial|poisson|gumbel|gamma")


def shape_noise(flow: GradientFlow, names: Collection[str]) -> bool:
    """Return whether all these parameters scale a draw of training, or are its arguments."""
    recorder, _ = flow.diagnosis.forward.record()
    own = {name: flow.subject.parameters[name] for name in names}
    return _shaping(recorder, own) == set(names)


def _shaping(recorder: Recorder, parameters: Mapping[str, nn.Parameter]) -> set[str]:
    """Return the parameters whose values scale a draw, or are passed to the drawing call."""
    flows = {id(parameter): {name} for name, parameter in parameters.items()}
    noise: set[int] = set()
    found: set[str] = set()
    for event in recorder.events:
        names = set[str]().union(*(flows.get(id(t), ()) for t in event.inputs))
        is_noisy = _is_draw(event) or any(id(t) in noise for t in event.inputs)
        scales = is_noisy and not _ADDITIONS.fullmatch(event.name)
        found |= names if scales else set()
        made = {id(t): t for t in event.outputs}
        flows |= {i: flows.get(i, set()) | names for i in made}
        noise |= {i for i, t in made.items() if is_noisy and not t.requires_grad}
    return found


def _is_draw(event: RecordedCall) -> bool:
    return bool(_DRAWS.search(event.name)) and "dropout" not in event.name
