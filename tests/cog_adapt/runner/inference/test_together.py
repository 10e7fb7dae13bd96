"""One forward answers pieces of several queries; the first of a structure is checked."""

import weakref

import pytest
import torch

from cog_adapt.runner.errors import ModeError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.sharing import FIRST_PAUSE
from cog_adapt.runner.inference.together import RowGroup
from gradient_check.tests.present import present
from tests.cog_adapt.mixed import Mixed, adapter, loaded


def served_of(model, made):
    return finished(model.predictions.modules.serving(Query(["a"], made)))


def pieces_of(model, *texts):
    return [
        RowGroup(some, served_of(model, adapter(model, number)), None)
        for number, some in enumerate(texts)
    ]


def answer(model, pieces):
    shared = model.predictions.shared
    batch = model.task.encode([text for piece in pieces for text in piece.inputs])
    return shared.answer(shared.structure(pieces[0].served), pieces, batch)


def test_each_piece_gets_its_own_answers():
    model = loaded()
    answers = answer(model, pieces_of(model, ["abc", "de"], ["f"], ["abc"]))
    assert [len(some) for some in answers] == [2, 1, 1]
    assert answers[0][0] != answers[2][0]


def counted(model):
    calls: list[int] = []
    forward = type(model.base.module).forward

    class Counting(type(model.base.module)):  # type: ignore[misc]
        def forward(self, batch):
            calls.append(len(batch["ids"]))
            return forward(self, batch)

    model.base.template.__class__ = Counting
    return calls


def test_a_structure_is_compared_with_each_adapter_alone_once():
    model = loaded()
    calls = counted(model)
    pieces = pieces_of(model, ["abc", "de"], ["f"])
    answer(model, pieces)
    assert sorted(calls) == [1, 2, 3]
    calls.clear()
    answer(model, pieces)
    assert calls == [3]


class Mixing(Mixed):
    """Its rows meet each other."""

    def load(self):
        module = super().load()
        module.__class__ = type("Meeting", (type(module),), {"forward": _meeting})
        return module


def _meeting(module, batch):
    mean = module.mean(batch)
    return module.head(mean - mean.mean(0, keepdim=True))


def test_a_model_whose_rows_meet_each_other_is_refused():
    model = loaded(Mixing())
    with pytest.raises(ModeError, match="other rows than the adapter's own module"):
        answer(model, pieces_of(model, ["abc"], ["f"]))


def test_a_task_that_does_not_share_has_no_structure():
    model = loaded()
    model.task.shares_forwards = False
    assert model.predictions.shared.structure(served_of(model, adapter(model, 2))) is None


def test_a_head_that_failed_has_no_structure_for_a_while_and_is_compared_again_then():
    model = loaded()
    calls = counted(model)
    pieces = pieces_of(model, ["abc", "de"], ["f"])
    answer(model, pieces)
    shared, served = model.predictions.shared, pieces[0].served
    structure = present(shared.structure(served))
    shared.note_failure(structure, 3, RuntimeError("a kernel failed"))
    for _ in range(FIRST_PAUSE):
        assert shared.structure(served) is None
        shared.note_alone(served)
    calls.clear()
    answer(model, pieces)
    assert len(calls) == 3  # the shared one, and each adapter alone


def test_a_model_that_cannot_share_stays_without_a_structure():
    model = loaded()
    served = served_of(model, adapter(model, 1))
    shared = model.predictions.shared
    shared.note_failure(present(shared.structure(served)), 2, ModeError("rows moved"))
    for _ in range(2 * FIRST_PAUSE):
        shared.note_alone(served)
    assert shared.structure(served) is None


def test_memory_that_ran_out_leaves_fewer_rows():
    model = loaded()
    served = served_of(model, adapter(model, 1))
    shared = model.predictions.shared
    structure = present(shared.structure(served))
    shared.note_failure(structure, 20, torch.OutOfMemoryError("CUDA out of memory"))
    assert shared.most_rows(present(shared.structure(served))) == 10


def test_replicas_are_bounded_and_stacks_by_bytes():
    model = loaded()
    shared = model.predictions.shared
    for rank in range(1, 8):
        made = RowGroup(["abc"], served_of(model, adapter(model, rank, rank=rank)), None)
        answer(model, [made, made])
    assert len(shared.replicas) == 4
    structure = shared.structure(served_of(model, adapter(model, 1, rank=4)))
    assert structure is not None
    assert shared.most_rows(structure) == 64 * 2**20 // (4 * 4 * (8 + 8))


def test_adapters_that_go_leave_nothing_in_a_stack():
    model = loaded()
    pieces = pieces_of(model, ["abc"], ["de"])
    answer(model, pieces)
    gone = weakref.ref(pieces[0].served)
    model.predictions.modules.served.forget(pieces[0].served.id)
    pieces.clear()
    assert gone() is None
    (replica,) = model.predictions.shared.replicas.values()
    kept = {p.data_ptr() for p in replica.parameters()}
    assert kept <= {p.data_ptr() for p in model.base.module.parameters()}


def test_base_and_modes_stay_as_they_were():
    model = loaded()
    answer(model, pieces_of(model, ["abc"], ["de"]))
    assert model.base.census.changes(model.base.module) == []
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
