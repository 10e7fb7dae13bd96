"""A replica is what `copy.deepcopy` makes, whatever a module keeps, and the base is untouched."""

import copy
import copyreg
import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from gradient_check.phases.module_copies import deep_copy
from gradient_check.phases.replicas import freeze, make_template, serving_part, serving_replica
from gradient_check.tests.models import (
    CachingMlp,
    ConvNet,
    SpectralNet,
    TinyTransformer,
    seeded_module,
)
from gradient_check.tests.states import module_state

WIDTH = 8


class Net(nn.Module):
    """Two layers with a head, and what an odd module may have beside."""

    fc: Any
    head: Any

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 3)
        self.more()

    def more(self) -> None:
        """Add what is odd."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.fc(x)))


class WithTensors(Net):
    def more(self):
        self.offsets = [torch.ones(WIDTH), torch.zeros(WIDTH)]
        self.by_name = {"scale": torch.full((WIDTH,), 0.5), 3: (torch.ones(1), "text")}

    def forward(self, x):
        self.offsets[1] += 1
        return super().forward(x * self.by_name["scale"] + self.offsets[0])


class WithSharedValues(Net):
    def more(self):
        self.notes: list[int] = []
        self.options = {"scale": 2}
        self.fc.notes, self.fc.options = self.notes, self.options
        self.fc.own_table = vars(self.fc)["_parameters"]

    def forward(self, x):
        self.notes.append(len(x))
        self.options["scale"] += 1
        return super().forward(x) * self.fc.options["scale"] + len(self.fc.notes)


class WithHiddenModules(Net):
    def more(self):
        self.steps = [self.fc, torch.tanh, self.head]
        self.alone = (nn.Linear(WIDTH, WIDTH).requires_grad_(False),)

    def forward(self, x):
        return functools.reduce(lambda value, step: step(value), self.steps, self.alone[0](x))


class WithParent(Net):
    def more(self):
        object.__setattr__(self.fc, "parent", self)
        self.fc.table = {"parent": self}

    def forward(self, x):
        return self.fc.table["parent"].head(torch.tanh(self.fc(x)))


class WithHooks(Net):
    def more(self):
        self.calls = 0
        self.fc.register_forward_hook(self.count)
        self.head.register_forward_pre_hook(functools.partial(_scaled, self), with_kwargs=True)
        self.register_load_state_dict_post_hook(_nothing)

    def count(self, _module, _inputs, output):
        self.calls += 1
        return output + self.calls


def _scaled(owner, _module, inputs, named):
    return (inputs[0] * (1 + owner.calls), *inputs[1:]), named


def _nothing(*_):
    return None


class WithBuffers(Net):
    steps: Any
    scale: Any

    def more(self):
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("scale", torch.full((WIDTH,), 0.5), persistent=False)
        self.register_buffer("later", None)
        self.fc.register_buffer("scale", self.scale)

    def forward(self, x):
        self.steps += 1
        return super().forward(x * self.fc.scale) + self.steps


class WithViews(Net):
    first: Tensor
    second: Tensor

    def more(self):
        whole = torch.arange(2.0 * WIDTH)
        self.register_buffer("first", whole[:WIDTH])
        self.register_buffer("second", whole[WIDTH:])

    def forward(self, x):
        return super().forward(x + self.first * self.second)


class Own(Net):
    def more(self):
        self.marks = {"copied": 0}

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({name: copy.deepcopy(v, memo) for name, v in vars(self).items()})
        made.marks["copied"] += 1
        return made


class WithOwnInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Own()
        self.again = self.inner
        self.last = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        return self.last(self.inner(x)) + self.again(x)


class WithState(Net):
    def more(self):
        self.cache: dict[str, Any] = {"a": [1]}

    def __getstate__(self):
        return {**vars(self), "cache": {"left": "out"}, "temporary": {"list": [object]}}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.cache = dict(self.cache, restored=True)


class Numbered(nn.Identity):
    """Its state has a table that is gone after the copy."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def __getstate__(self):
        return {**vars(self), "label": {"number": self.number}}


class WithPairState(Net):
    def __getstate__(self):
        return (dict(vars(self)), "second")

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.second = state[1]


class WithSlots(Net):
    __slots__ = ("kept",)

    def more(self):
        self.kept = None


class WithReduce(Net):
    def __reduce_ex__(self, protocol):
        return _remade, (type(self), vars(self) | {"is_remade": True})


def _remade(kind, state):
    made = kind.__new__(kind)
    nn.Module.__setstate__(made, state)
    return made


class WithArguments(Net):
    def __new__(cls, width=WIDTH):
        made = super().__new__(cls)
        object.__setattr__(made, "width", width)
        return made

    def __getnewargs__(self):
        return (self.width,)


class Delegating(nn.Module):
    """Gives its inner module's attributes as its own, as PEFT's wrappers do."""

    def __init__(self):
        super().__init__()
        self.inner = Net()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "inner":
                raise
            return getattr(self.inner, name)

    def forward(self, x):
        return self.head(torch.tanh(self.fc(x)))


class DelegatingToOwn(Delegating):
    """Its inner module says how to be copied, and so `deepcopy` copies that one instead."""

    def __init__(self):
        super().__init__()
        self.inner = Own()


class WithAttributes(Net):
    """Attributes by way of properties and of a class that counts them."""

    def more(self):
        self.set_of_names = {"a", "b"}
        self.frozen = frozenset((1, 2))
        self.path = threading.current_thread().name
        self.kind, self.size = nn.Linear, torch.Size([2, 3])
        self.dtype, self.device = torch.float64, torch.device("cpu")
        self.function, self.partial = F.relu, functools.partial(F.softmax, dim=-1)
        self.bound = self.fc.forward
        self.lambda_ = lambda value: value * 2

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        self.__dict__["sets"] = self.__dict__.get("sets", 0) + 1

    def forward(self, x):
        return self.partial(self.lambda_(self.head(self.function(self.bound(x)))))


@dataclass
class Options:
    """Plain values in an object, as a configuration has."""

    scale: float = 2.0
    table: dict[str, list[int]] = field(default_factory=lambda: {"a": [1, 2]})


class WithConfiguration(Net):
    def more(self):
        self.config = self.fc.config = self.head.config = Options()

    def forward(self, x):
        self.config.table["a"].append(1)
        return super().forward(x) * self.head.config.scale + len(self.fc.config.table["a"])


class WithWeakReference(Net):
    def more(self):
        self.fc.owner = weakref.ref(self)


class WithTables(Net):
    """Dictionaries of several kinds, nested, with keys that are no texts."""

    def more(self):
        self.ordered: Any = OrderedDict([((1, 2), [torch.ones(1)]), (None, OrderedDict())])
        self.empty: Any = [OrderedDict(), {}, set(), []]
        self.nested = {1: {2: {"fc": self.fc}}, ("a", 1): {}}
        vars(self.ordered)["note"] = "on the table"


class ListOfItself(nn.ModuleList):
    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class InTable(Net):
    """A class in `copyreg`'s table."""


copyreg.pickle(InTable, lambda module: (_remade, (InTable, vars(module) | {"is_remade": True})))


class Halving(nn.Module):
    def forward(self, weight):
        return weight / 2


def parametrized() -> nn.Module:
    net = Net()
    parametrize.register_parametrization(net.fc, "weight", Halving())
    return net


def weight_normed() -> nn.Module:
    net = Net()
    parametrizations.weight_norm(net.head)
    return net


def pruned() -> nn.Module:
    net = Net()
    prune.l1_unstructured(net.fc, "weight", amount=0.5)
    return net


def traced() -> nn.Module:
    return fx.symbolic_trace(Net())


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    net[2].weight = net[0].weight
    net.append(net[0])
    return net


def recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(1, WIDTH, 2, batch_first=True)
            self.head = nn.Linear(WIDTH, 3)

        def forward(self, x):
            return self.head(self.rnn(x.unsqueeze(-1))[0][:, -1])

    return Last()


def with_method_of_its_own() -> nn.Module:
    net: Any = Net()
    net.fc.forward = functools.partial(nn.Linear.forward, net.fc)
    net.head.__deepcopy__ = lambda memo: memo.setdefault(id(net.head), nn.Sequential(nn.Tanh()))
    return net


def numbered() -> nn.Module:
    return nn.Sequential(*map(Numbered, range(20)), nn.Linear(WIDTH, 3))


def lists() -> nn.Module:
    inner = nn.ModuleDict({"a": nn.Linear(WIDTH, WIDTH), "b": nn.Identity()})
    return ListOfItself([inner["a"], nn.ParameterList([torch.ones(1)]) and nn.Tanh(), inner["b"]])


SHAPES = {
    make.__name__: make
    for make in (
        *(WithTensors, WithSharedValues, WithHiddenModules, WithParent, WithHooks, WithBuffers),
        *(WithViews, Own, WithOwnInside, WithState, WithPairState, WithSlots, WithReduce),
        *(WithArguments, Delegating, DelegatingToOwn, WithAttributes, WithConfiguration),
        *(WithWeakReference, WithTables, InTable, parametrized, weight_normed, pruned),
        *(traced, tied, recurrent, with_method_of_its_own, lists, numbered),
        *(ConvNet, CachingMlp, SpectralNet, TinyTransformer),
    )
}


def inputs(shape: str) -> Tensor:
    if shape == "TinyTransformer":
        return torch.tensor([[1, 2, 3, 4, 5, 6]])
    return torch.linspace(-1, 1, 2 * WIDTH).view(2, WIDTH)


def base_of(shape: str) -> Any:
    base = seeded_module(SHAPES[shape])
    freeze(base)
    return base


def first_of(outputs: Any) -> Tensor:
    return outputs[0] if isinstance(outputs, tuple) else outputs


def same(one: Any, other: Any, known: dict[int, tuple[Any, Any]]) -> bool:
    """Whether two graphs of objects have equal values, and share the same of them.

    `known` has the objects that were met, which keeps their `id` theirs.
    """
    if type(one) is not type(other):
        return False
    if one is other:
        return True
    if id(one) in known or id(other) in known:
        met = known.get(id(one))
        return met is not None and met[0] is one and met[1] is other
    known[id(one)] = known[id(other)] = (one, other)
    if isinstance(one, Tensor):
        like = (one.dtype, one.shape, one.requires_grad) == (
            *(other.dtype, other.shape, other.requires_grad),
        )
        return like and torch.equal(one.detach(), other.detach())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other, [known] * len(one)))
    inner = [*_inner(one)], [*_inner(other)]
    if inner[0] or inner[1]:
        return same(*inner, known)
    return _plain(one) == _plain(other)


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.items()
    if hasattr(value, "__dict__") and not isinstance(value, type):
        yield from vars(value).items()
    if callable(value) and hasattr(value, "__self__"):
        yield value.__self__
    if isinstance(value, weakref.ref):
        yield value()
    if isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)


def _plain(value: Any) -> Any:
    kind: Any = type(value)
    return repr(kind) if kind.__repr__ is object.__repr__ else value


# a GraphModule makes a class of its own for each copy; `deepcopy` refuses a pruned weight
@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"traced", "pruned"}))
def test_a_copy_is_that_of_deepcopy(shape):
    base = base_of(shape)
    own, expected = deep_copy(base, {}), copy.deepcopy(base)
    assert same(own, expected, {})
    assert {*map(id, own.modules())}.isdisjoint(map(id, base.modules()))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_replica_answers_as_one_with_the_adapter_loaded_and_the_base_is_untouched(shape):
    base = base_of(shape)
    before = module_state(base)
    template = make_template(base)
    reference = copy.deepcopy(template)
    tensors = {
        name: tensor.detach() * 1.5 + 0.1
        for name, tensor in template.named_parameters()
        if name.rpartition(".")[0].endswith("head") or "." not in name
    } or {name: tensor.detach() * 1.5 for name, tensor in [*template.named_parameters()][-1:]}
    for name, tensor in tensors.items():
        with torch.no_grad():
            reference.get_parameter(name).copy_(tensor)
    x = inputs(shape)
    with torch.no_grad():
        expected = [first_of(reference(x)) for _ in range(2)]
        for _ in range(2):  # what a replica's forward changes stays its own
            replica = serving_replica(template, tensors)
            assert all(torch.equal(first_of(replica(x)), rows) for rows in expected)
    assert module_state(base) == before


@pytest.mark.parametrize("shape", ["WithTensors", "TinyTransformer", "SpectralNet", "Delegating"])
def test_a_part_answers_as_that_of_the_whole(shape):
    template = make_template(base_of(shape))
    place = "inner.head" if shape == "Delegating" else "head"
    tensors = {
        f"{place}.{leaf}": tensor.detach() + 1
        for leaf, tensor in template.get_submodule(place).named_parameters()
    }
    tensors[f"{place}.lora_a"] = torch.ones(2, WIDTH)
    tensors[f"{place}.lora_b"] = torch.ones(3, 2)
    scales = {place: 0.5, "fc": 3.0}
    whole = serving_replica(template, tensors, scales).get_submodule(place)
    part = serving_part(template, place, tensors, scales)
    assert part is not None
    assert type(part) is type(whole)
    assert torch.equal(part(torch.ones(1, WIDTH)), whole(torch.ones(1, WIDTH)))
    assert not any(each.training or p.requires_grad for each in [part] for p in part.parameters())


@pytest.mark.parametrize("shape", ["WithParent", "WithConfiguration", "WithHooks"])
def test_a_part_that_refers_to_other_modules_is_not_made_alone(shape):
    template = make_template(base_of(shape))
    place = "fc" if shape == "WithParent" else "head"
    made = serving_part(template, place, {})
    assert (made is None) == (shape != "WithConfiguration")
