"""Records a forward: every torch call with its line, and the values that lost their graph.

A *cut* is a call with an input that requires grad and a result that does not. Each tensor carries
the cuts whose values flowed into it by a path without another cut. Values that left torch
(`.item()`, NumPy) and came back are linked as far as possible.
"""

from collections.abc import Collection, Iterable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradient_check.instruments.event import Cuts, RecordedCall
from gradient_check.instruments.sources import stack_here
from gradient_check.phases.modes import run_with_graph

_NONE: Cuts = frozenset()
_LEAVES_TORCH = {
    "item", "tolist", "numpy", "__array__", "__float__", "__int__", "__index__", "__complex__",
    "__format__", "__repr__", "untyped_storage", "__dlpack__", "data_ptr",
}  # fmt: skip
_READS_NO_VALUES = {
    "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like", "new_zeros",
    "new_ones", "new_empty", "new_full", "randint_like", "new_empty_strided", "bernoulli_like",
}  # fmt: skip
# each result has a graph only if its own argument has one
_ONE_BY_ONE = {"broadcast_tensors", "meshgrid"}
_MAKERS = {"tensor", "as_tensor", "from_numpy", "new_tensor", "asarray", "frombuffer", "full"}
_MAKERS |= {"scalar_tensor", "Tensor", "FloatTensor"}
SKIPPABLE = ("detach", "data.__get__", "detach_", "register_hook")
"""Calls that return their argument, without its graph or with a hook."""


class Recorder(TorchFunctionMode):
    """Records calls on this thread while the context is open.

    Args:
        skip: the indices of calls that lose the graph (a detach, `.data`, a hook, a call under
            no_grad), which are left out.
    """

    def __init__(self, skip: Collection[int] = ()) -> None:
        super().__init__()
        self.skip = skip
        self.events: list[RecordedCall] = []
        self.cuts: dict[int, Cuts] = {}
        self.escapes: list[tuple[RecordedCall, Cuts, object]] = []
        self.known: dict[int, Tensor] = {}
        self.storages: dict[int, Tensor] = {}
        self.makers: dict[Any, RecordedCall] = {}
        self.made: dict[int, RecordedCall] = {}
        self.hidden: dict[int, Cuts] = {}

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call and record it."""
        kwargs = kwargs or {}
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        event = RecordedCall(name_of(func), stack_here(), inputs, len(self.events))
        self.events.append(event)
        for tensor in inputs:
            self._note_undifferentiated(event, tensor)
        came_in = frozenset().union(*(self.cuts_of(t) for t in inputs)) if inputs else _NONE
        if event.index in self.skip:
            return without_cut(func, args, kwargs)
        result = func(*args, **kwargs)
        event.end()
        event.sources = came_in | _returned(self, event, args, kwargs)
        self._note(event, args, kwargs, result)
        return result

    def _note(self, event: RecordedCall, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ANN401
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if event.name in _LEAVES_TORCH:
            self._note_escape(event, result)
            return
        changed = [args[0]] if event.writes and args and isinstance(args[0], Tensor) else []
        changed += [t for t in tree_leaves(kwargs.get("out")) if isinstance(t, Tensor)]
        for tensor in outputs:
            self._note_output(event, tensor)
        for tensor in changed:
            self._note_written(event, tensor)

    def _note_output(self, event: RecordedCall, tensor: Tensor) -> None:
        loses = event.has_graph and not _has_its_graph(tensor, event)
        if event.stack.in_custom_function:  # its results may still get a gradient
            came = (self.hidden.get(id(t), _NONE) for t in event.inputs)
            self.hidden[id(tensor)] = frozenset([event]) if loses else _NONE.union(*came)
            loses = False
        if loses and event.name not in _READS_NO_VALUES | _ONE_BY_ONE and tensor.numel():
            event.is_cut = True
            self._know(tensor, frozenset([event]), event)
        else:
            carried = _NONE if event.name in _READS_NO_VALUES else event.sources
            self._know(tensor, carried, event)

    def _note_undifferentiated(self, event: RecordedCall, tensor: Tensor) -> None:
        """Record as cuts a custom function's results that get no gradient."""
        if event.stack.in_custom_function or tensor.requires_grad:
            return
        hidden = self.hidden.pop(id(tensor), _NONE)
        if hidden and tensor.is_floating_point():
            for inner in hidden:
                inner.is_cut = True
            self.cuts[id(tensor)] = self.cuts_of(tensor) | hidden

    def _note_written(self, event: RecordedCall, tensor: Tensor) -> None:
        before = self.cuts_of(tensor)
        self._know(tensor, before | event.sources, event)
        if tensor._base is not None:
            self._know(tensor._base, self.cuts_of(tensor._base) | event.sources, event)
        alias = self.storages.get(_storage(tensor))
        if alias is not None and alias is not tensor and alias is not tensor._base:
            event.is_cut = True
            self._know(alias, self.cuts_of(alias) | {event}, event)

    def _note_escape(self, event: RecordedCall, result: object) -> None:
        cuts = event.sources
        if event.has_graph:
            event.is_cut = True
            cuts = frozenset([event])
        if cuts:
            self.escapes.append((event, cuts, result))

    def _know(self, tensor: Tensor, cuts: Cuts, event: RecordedCall) -> None:
        self.known[id(tensor)] = tensor
        self.cuts[id(tensor)] = cuts
        self.storages.setdefault(_storage(tensor), tensor)
        self.made[id(tensor)] = event
        event.outputs.append(tensor)
        if tensor.grad_fn is not None:
            self.makers.setdefault(tensor.grad_fn, event)

    def maker(self, node: Any) -> RecordedCall | None:  # noqa: ANN401
        """Return the call that made a node of the graph; for a custom function, its last call."""
        if node in self.makers:
            return self.makers[node]
        for identity, tensor in self.known.items():
            if tensor.grad_fn is node:
                return self.made.get(identity)
        return None

    def cuts_of(self, tensor: Tensor) -> Cuts:
        """Return the cuts that flow into a tensor, also into one that no recorded call made."""
        if id(tensor) in self.known:
            return self.cuts[id(tensor)]
        if tensor.grad_fn is not None:
            return self._cuts_upstream(tensor)
        twin = self.storages.get(_storage(tensor)) if tensor.numel() else None
        if twin is not None and (twin.requires_grad or self.cuts[id(twin)]):
            return self._rewrapped(tensor, twin)
        sizes = ((cuts, getattr(value, "size", None)) for _, cuts, value in self.escapes)
        # cuts of a NumPy array of the same size
        came = [cuts for cuts, size in sizes if size == tensor.numel()]
        return _NONE.union(*came)

    def _cuts_upstream(self, tensor: Tensor) -> Cuts:
        """Return the cuts of the graph's nearest recorded results; custom functions have none."""
        stack, seen, cuts = [tensor.grad_fn], set(), _NONE
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            event = self.makers.get(node)
            if event is not None:
                cuts |= frozenset().union(*(self.cuts.get(id(t), _NONE) for t in event.outputs))
            else:
                stack.extend(following for following, _ in node.next_functions)
        return cuts

    def _rewrapped(self, tensor: Tensor, twin: Tensor) -> Cuts:
        """Return the cuts of a new tensor on known memory: `nn.Parameter(h)`, or from NumPy."""
        cuts = self.cuts[id(twin)]
        if twin.requires_grad:
            event = RecordedCall("rewrap", stack_here(), [twin], len(self.events))
            event.is_cut = True
            event.sources = cuts
            cuts = frozenset([event])
        self.known[id(tensor)], self.cuts[id(tensor)] = tensor, cuts
        return cuts


def _has_its_graph(tensor: Tensor, event: RecordedCall) -> bool:
    """Return whether a result has the graph of a call; a view under no_grad may be a new leaf."""
    is_new_leaf = tensor.is_leaf and not any(tensor is given for given in event.inputs)
    return tensor.requires_grad and not is_new_leaf


def name_of(func: Any) -> str:  # noqa: ANN401
    """Return the name of a torch function; for an attribute with its access."""
    name: str = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        return f"{getattr(func.__self__, '__name__', '')}.{name}"
    return name


def without_cut(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return a graph-losing call's result with its graph.

    In place of a detached copy or of a hook's handle, the result is the tensor itself; a gradient
    gets its own graph; any other call runs again with gradients enabled.
    """
    name = name_of(func)
    if name in SKIPPABLE:
        return args[0]
    if name == "grad":
        return func(*args, **{**kwargs, "create_graph": True})
    return run_with_graph(func, *args, **kwargs)


def _returned(recorder: Recorder, event: RecordedCall, args: Any, kwargs: Any) -> Cuts:  # noqa: ANN401
    """Return the cuts of values that left torch and that this call brings back."""
    if not recorder.escapes:
        return _NONE
    if event.name in _MAKERS:
        return frozenset().union(*(cuts for _, cuts, _ in recorder.escapes))
    values = [v for v in tree_leaves((args, kwargs)) if not isinstance(v, Tensor)]
    strangers = any(
        id(t) not in recorder.known and t.is_leaf and not t.requires_grad for t in event.inputs
    )
    came = [c for _, c, value in recorder.escapes if strangers or _contains(values, value)]
    return frozenset().union(*came) if came else _NONE


def _storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _contains(values: Iterable[object], value: object) -> bool:
    if isinstance(value, float | int):
        return any(isinstance(v, float | int) and v == value for v in values)
    return any(v is value for v in values)
