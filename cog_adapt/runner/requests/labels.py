"""The label set of one request, bounded before the model works on it.

Labels come from the request, from its examples, or from the adapter that it names.
"""

from collections.abc import Sequence

from cog_adapt.runner.adaptation.first_tensors import labels_to_learn
from cog_adapt.runner.data.examples import ExampleSet
from cog_adapt.runner.data.row import brief
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.task.labelled import check_apart
from cog_adapt.runner.task.task import Task

_SHOWN = 10


def settle_labels(
    task: Task, request: Request, examples: ExampleSet, named: Adapter | None
) -> tuple[str, ...]:
    """Determine the request's label set; its sources must agree.

    Examples that come with an adapter may use some of the adapter's labels, and new labels: the
    adaptation starts from the adapter.

    Raises:
        InputError: the sources disagree, or the labels are too many, too long, empty or look alike.
    """
    _check_names(task, request.labels)
    if named and named.labels and examples.examples:
        labels_to_learn(task, examples.examples, named)  # refuses examples that cannot be learned
        return named.labels
    found = {
        "labels": tuple(request.labels),
        "examples": task.labels(examples.examples) if examples.examples else (),
        "adapter": named.labels if named else (),
        "the task": task.labels(()),
    }
    given = {place: labels for place, labels in found.items() if labels}
    (first, labels), *others = given.items() or [("labels", ())]
    _check_count(task, labels)
    check_apart(labels)
    _check_lengths(task, found["examples"])
    for place, other in others:
        if set(other) != set(labels):
            raise InputError(
                f"`{first}` has the labels {_shown(labels)}, but `{place}` has {_shown(other)}. "
                "Send only one of them, or make them agree."
            )
    return labels


def check_scores(task: Task, request: Request, labels: Sequence[str]) -> None:
    """Refuse a small request whose answer would be large (InputError)."""
    if len(request.inputs) * len(labels) > task.max_scores:
        raise InputError(
            f"{len(request.inputs):,} inputs times {len(labels):,} labels are more than "
            f"{task.max_scores:,} scores. Send fewer inputs at once, or fewer labels."
        )


def _check_names(task: Task, labels: Sequence[object]) -> None:
    _check_count(task, labels)
    seen: set[str] = set()
    for number, label in enumerate(labels, 1):
        if not isinstance(label, str) or not label.strip():
            raise InputError(f"label {number} is {brief(label)}. Send a name, or leave it out.")
        if len(label) > task.max_label_characters:
            raise InputError(
                f"label {number} has {len(label):,} characters; the limit is "
                f"{task.max_label_characters}. Shorten it."
            )
        if label in seen:
            raise InputError(f"label {number}, {brief(label)}, occurs twice. Send each label once.")
        seen.add(label)


def _check_lengths(task: Task, labels: Sequence[object]) -> None:
    """Refuse label names of examples that are too long, unless the task fixes the set."""
    own = {*task.labels(())}
    for label in labels:
        if isinstance(label, str) and len(label) > task.max_label_characters and label not in own:
            raise InputError(
                f"the label {brief(label)} of the examples has {len(label):,} characters; the "
                f"limit is {task.max_label_characters}. Shorten it."
            )


def _check_count(task: Task, labels: Sequence[object]) -> None:
    if len(labels) > task.max_labels:
        raise InputError(f"{len(labels):,} labels, the limit is {task.max_labels:,}. Give fewer.")


def _shown(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return f"[{', '.join(map(brief, labels[:_SHOWN]))}]{more}"
