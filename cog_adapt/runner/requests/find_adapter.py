"""Finds the adapter that a request refers to, and the start of its adaptation."""

from collections.abc import Callable, Hashable
from pathlib import Path

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.adaptation.first_tensors import labels_to_learn, part_of
from cog_adapt.runner.adaptation.methods import continuing
from cog_adapt.runner.data.examples import ExampleSet
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.blend import Blend
from cog_adapt.runner.request import URL, Request, fetched
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task.task import Task

_MOST_SCALE = 100
_SHOWN = 80
_SHOWN_LABELS = 5


def find_adapter(
    request: Request,
    store: AdapterStore,
    asker: Asker,
    *,
    read: Callable[[Path], Adapter],
) -> Adapter | None:
    """Find the adapter that a request names or sends as a file; None if it has neither.

    A file belongs to its sender, and serves this request only. An unusable file is its sender's
    mistake; an unusable stored adapter is the server's.

    Args:
        request: may name an adapter, or bring one.
        store: the named ones.
        asker: whose request it is.
        read: reads a sent file whose adapter fits the base, and refuses others (WeightsError).

    Raises:
        InputError: the adapter is unknown, or the file is no adapter of this base.
        WeightsError: the stored adapter is damaged.
    """
    if request.adapter and request.weights:
        raise InputError("`adapter` and `weights` are both set. Send one of them.")
    if request.adapter.startswith(URL):
        raise InputError(
            f"`adapter` is the URL {request.adapter[:_SHOWN]!r}, but takes an id or a name. Send a "
            "file or a URL as `weights`."
        )
    if request.weights:
        return _sent_adapter(request.weights, read)
    if not request.adapter:
        return None
    return store.get(request.adapter, asker.owner, sees_all=asker.sees_all)


def find_blend(request: Request, store: AdapterStore, asker: Asker) -> Blend:
    """Find the second adapter of a request, and how strongly both count.

    Raises:
        InputError: the second adapter is unknown, has no LoRA pairs, or has nothing to be added to;
            or a scale is out of bounds.
        WeightsError: the stored adapter is damaged.
    """
    for name in ("lora_scale", "extra_lora_scale"):
        scale = getattr(request, name)
        if not isinstance(scale, int | float) or not abs(scale) <= _MOST_SCALE:
            raise InputError(f"`{name}` is {scale!r:.40}; it lies in ±{_MOST_SCALE}. Send less.")
    extra = None
    if request.extra_lora.startswith(URL):
        raise InputError(
            f"`extra_lora` is the URL {request.extra_lora[:_SHOWN]!r}, but takes an id or a name. "
            "Upload the file to POST /adapters, and send its id."
        )
    if request.extra_lora:
        sources = (request.adapter, request.weights, request.examples, request.examples_file)
        if not any(sources):
            raise InputError(
                "`extra_lora` is added to an adapter, but the request has none. Send it as "
                "`adapter`."
            )
        extra = store.get(request.extra_lora, asker.owner, sees_all=asker.sees_all)
        if extra.rank is None:
            raise InputError(
                f"`extra_lora` {request.extra_lora[:_SHOWN]!r} has no LoRA pairs (its method is "
                f"{extra.method!r}), so there is nothing to add. Name another adapter."
            )
    return Blend(request.lora_scale, extra, request.extra_lora_scale)


def begin_of(
    task: Task, request: Request, examples: ExampleSet, adapter: Adapter | None
) -> Adapter | None:
    """Return the adapter that the adaptation starts from; `labels` selects some of its labels.

    Raises:
        InputError: the recipe differs from the adapter's, or a label is unknown to it.
    """
    if adapter is not None:
        continuing(request.recipe, task, adapter)
    if adapter is None or not adapter.labels or not request.labels:
        return adapter
    targets = {e.target for e in examples.examples if isinstance(e.target, Hashable)}
    all_labels = labels_to_learn(task, examples.examples, adapter)
    found = {label for label in all_labels if label in targets}
    asked = dict.fromkeys(request.labels)
    wrong = [*(set(asked) - found - set(adapter.labels)), *(found - set(asked))]
    if wrong:
        raise InputError(
            f"`labels` has {list(asked)!r}: {sorted(wrong)[:_SHOWN_LABELS]!r} must be among the "
            f"labels of the adapter, {list(adapter.labels)!r}, or of the examples, and `labels` "
            "must contain each label of the examples. Leave `labels` out to use all of both."
        )
    return part_of(adapter, [*asked], task.head)


def _sent_adapter(weights: object, read: Callable[[Path], Adapter]) -> Adapter:
    try:
        return read(fetched(weights))
    except (InputError, WeightsError) as error:
        raise InputError(f"`weights`: {error}") from error
