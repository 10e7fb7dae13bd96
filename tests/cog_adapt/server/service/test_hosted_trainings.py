"""Trainings in the slots of a worker whose predictor also trains."""

import pytest

from cog_adapt.server.protocol import Cancel, Described, Finished, Output, Run

BOTH = Described(b"{}", 4, is_async=True, serves_both=True)


@pytest.fixture
def play_both(play):
    """Runs a scene whose worker for predictions trains too, in four slots."""

    def run(scene, **settings):
        async def prepared(harness):
            lead = harness.dispatcher.lead
            lead.description, lead.slots = BOTH, 4
            harness.trainings.lead.state = "idle"
            await scene(harness, lead)

        play(prepared, **settings)

    return run


def test_a_training_runs_beside_a_prediction_of_its_name_in_the_same_worker(play_both):
    async def scene(harness, lead):
        harness.trainings.start()
        one = await harness.submit("x", durable=False)
        two = await harness.submit("x", "train", durable=False)
        assert harness.trainings.lead.state == "idle"  # no process of its own
        runs = [each for each in harness.model.said if isinstance(each, Run)]
        assert [(each.shown_id, each.kind) for each in runs] == [("x", "predict"), ("x", "train")]
        for run, chunk in zip(runs, (b"1", b"2"), strict=True):
            lead.on_report(Output(run.id, chunk))
            lead.on_report(Finished(run.id, "succeeded"))
        assert [bytes(each.outputs[0]) for each in (one, two)] == [b"1", b"2"]
        assert harness.trainings.predictions == harness.dispatcher.predictions == {}

    play_both(scene)


def test_trainings_leave_a_slot_to_predictions_and_wait_for_slots_of_either_kind(play_both):
    async def scene(harness, lead):
        for name in "abcd":
            await harness.submit(name, "train", durable=False)
        assert len(lead.running) == 3
        first = await harness.submit("p", durable=False)
        await harness.submit("q", durable=False)
        assert (len(lead.running), len(harness.dispatcher.waiting)) == (4, 1)
        harness.trainings.end(next(iter(lead.running.values())), Finished("a", "succeeded"))
        assert len(harness.dispatcher.waiting) == 0  # the slot of a training went to a prediction
        harness.dispatcher.end(first, Finished("p", "succeeded"))
        assert [each.id for each in harness.trainings.waiting] == ["d"]
        harness.dispatcher.end(harness.dispatcher.find("q"), Finished("q", "succeeded"))
        assert len(harness.trainings.waiting) == 0

    play_both(scene)


def test_a_hosted_training_is_cancelled_and_dies_with_the_worker_as_a_prediction_does(play_both):
    async def scene(harness, lead):
        lost = await harness.submit("lost", "train", durable=False)
        again = await harness.submit("again", "train", durable=False, retries=1)
        beside = await harness.submit("beside", durable=False)
        assert harness.trainings.cancel("lost")
        assert harness.model.said[-1] == Cancel(lost.run_id)
        lost.is_cancelled = False
        harness.crash()
        assert "was killed" in lost.error
        assert (beside.status, again.status) == ("failed", "starting")
        assert [each.id for each in harness.trainings.waiting] == ["again"]
        await harness.set_up_again()
        assert list(lead.running) == [again.run_id]

    play_both(scene)


def test_at_the_end_each_kind_fails_its_own(play_both):
    async def scene(harness, lead):
        training = await harness.submit("t", "train", durable=False)
        prediction = await harness.submit("p", durable=False)
        harness.trainings.slots.close("over")
        assert (training.status, prediction.status) == ("failed", "processing")
        harness.dispatcher.slots.close("over")
        assert prediction.status == "failed"

    play_both(scene)
