"""Finds the adapter that a request refers to, and the start of its adaptation."""

from collections.abc import Hashable

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


def find_adapter(request: Request, store: AdapterStore, asker: Asker) -> Adapter | None:
    """Find the adapter that a request names or sends as a file; None if it has neither.

    A file belongs to its sender, and serves this request only.

    Raises:
        InputError: the adapter is unknown, or the file was not downloaded.
        WeightsError: the file is no adapter.
    """
    if request.adapter and request.weights:
        raise InputError("`adapter` and `weights` are both set. Send one of them.")
    if request.adapter.startswith(URL):
        raise InputError(
            f"`adapter` is the URL {request.adapter[:_SHOWN]!r}, but takes an id or a name. Send a "
            "file or a URL as `weights`."
        )
    if request.weights:
        return _sent_adapter(request.weights)
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


def _sent_adapter(weights: object) -> Adapter:
    try:
        return read_adapter(fetched(weights))
    except (InputError, WeightsError) as error:
        raise type(error)(f"`weights`: {error}") from error
