"""Finds the adapter that a request refers to, and the start of its adaptation."""

from collections.abc import Callable, Hashable

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.adaptation.first_tensors import labels_to_learn, part_of
from cog_adapt.runner.adaptation.methods import continuing
from cog_adapt.runner.data.examples import ExampleSet
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter, read_adapter
from cog_adapt.runner.request import URL, Request, fetched
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task.task import Task

_SHOWN = 80
_SHOWN_LABELS = 5


def find_adapter(
    request: Request,
    store: AdapterStore,
    asker: Asker,
    *,
    check: Callable[[Adapter], Adapter],
) -> Adapter | None:
    """Find the adapter that a request names or sends as a file; None if it has neither.

    A file belongs to its sender, and serves this request only. An unusable file is its sender's
    mistake; an unusable stored adapter is the server's.

    Args:
        request: may name an adapter, or bring one.
        store: the named ones.
        asker: whose request it is.
        check: returns a sent adapter that fits the base, and refuses others (WeightsError).

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
        return _sent_adapter(request.weights, check)
    if not request.adapter:
        return None
    return store.get(request.adapter, asker.owner, sees_all=asker.sees_all)


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


def _sent_adapter(weights: object, check: Callable[[Adapter], Adapter]) -> Adapter:
    try:
        return check(read_adapter(fetched(weights)))
    except (InputError, WeightsError) as error:
        raise InputError(f"`weights`: {error}") from error
