"""Which of several workers runs a prediction."""

import json

import pytest

from cog_adapt.server.adapter_messages import AdapterChanged
from cog_adapt.server.protocol import OWNER_KEY, Finished
from cog_adapt.server.service.affinity import Affinity, read_affinity
from cog_adapt.server.service.placement import Placement

ROWS = [{"text": "a", "label": "b"}]


async def submit(harness, name, owner="", **inputs):
    context = {OWNER_KEY: owner} if owner else {}
    content = json.dumps(inputs).encode()
    return await harness.submit(name, durable=False, context=context, input=content)


def end(harness, *names):
    """End runs, so that their slots are free."""
    for worker in harness.dispatcher.workers:
        for run_id, run in list(worker.running.items()):
            if run_id.rpartition("/")[2] in names:
                harness.dispatcher.end(run, Finished(run.id, "succeeded"))


def running(harness):
    return [
        [each.rpartition("/")[2] for each in worker.running]
        for worker in harness.dispatcher.workers
    ]


def test_work_is_spread_to_the_worker_with_the_fewest_running(play):
    async def scene(harness):
        harness.several(3)
        for name in "abcdef":
            await submit(harness, name)
        assert running(harness) == [["a", "d"], ["b", "e"], ["c", "f"]]
        end(harness, "b", "e")
        for name in "gh":
            await submit(harness, name)
        assert running(harness) == [["a", "d"], ["g", "h"], ["c", "f"]]

    play(scene)


def test_one_after_the_other_the_workers_take_turns(play):
    async def scene(harness):
        workers = harness.several(2)
        taken = []
        for name in "abcd":
            await submit(harness, name)
            taken.append([bool(worker.running) for worker in workers].index(True))
            end(harness, name)
        assert taken == [0, 1, 0, 1]

    play(scene)


@pytest.mark.parametrize("field", ["examples", "examples_file"])
def test_the_same_examples_go_where_they_are_learnt(play, field):
    async def scene(harness):
        harness.several(2, slots=3)
        await submit(harness, "a", **{field: ROWS})
        await submit(harness, "b", **{field: ROWS}, text="another")
        await submit(harness, "c", **{field: ROWS})  # though the other worker has nothing to do
        assert running(harness) == [["a", "b", "c"], []]
        await submit(harness, "d", **{field: ROWS})  # nothing waits for a slot where they are
        assert running(harness) == [["a", "b", "c"], ["d"]]
        end(harness, "b", "c", "d")
        await submit(harness, "more", **{field: [*ROWS, *ROWS]})
        await submit(harness, "theirs", owner="ann", **{field: ROWS})
        assert running(harness) == [["a", "theirs"], ["more"]]

    play(scene)


def test_the_same_examples_by_another_recipe_use_another_worker(play):
    async def scene(harness):
        harness.several(2)
        for seed in range(4):
            await submit(harness, f"s{seed}", examples=ROWS, seed=seed)
        assert running(harness) == [["s0", "s2"], ["s1", "s3"]]

    play(scene)


def test_an_adapter_is_asked_where_it_was_used_before(play):
    async def scene(harness):
        harness.several(2)
        await submit(harness, "base")
        await submit(harness, "a", adapter="dear")
        end(harness, "a", "base")
        await submit(harness, "b", adapter="dear")
        await submit(harness, "c", adapter="dear")
        await submit(harness, "other")
        assert running(harness) == [["other"], ["b", "c"]]

    play(scene)


def test_an_adapter_is_asked_where_it_was_made_until_it_is_removed_or_the_process_ends(play):
    async def scene(harness):
        _, second = harness.several(2)

        async def where(name):
            await submit(harness, name, owner="ann", adapter="dear")
            found = [bool(worker.running) for worker in harness.dispatcher.workers].index(True)
            end(harness, name)
            return found

        second.on_report(AdapterChanged("ann", "dear", b"{}"))
        assert [await where("a"), await where("b")] == [1, 1]
        second.on_report(AdapterChanged("ann", "dear", None))
        assert await where("c") == 0  # the one whose last start is longest ago
        second.on_report(AdapterChanged("ann", "dear", b"{}"))
        harness.dispatcher.slots.placement.on_exit(harness.dispatcher.workers[0])
        assert await where("d") == 1
        harness.dispatcher.slots.placement.on_exit(second)
        assert await where("e") == 0

    play(scene)


def test_many_requests_for_one_adapter_use_every_worker(play):
    async def scene(harness):
        harness.several(2, slots=16)
        for number in range(8):
            await submit(harness, str(number), adapter="hot")
        loads = [len(worker.running) for worker in harness.dispatcher.workers]
        assert loads == [4, 4]

    play(scene, max_queue=20)


def test_the_adapters_that_are_known_are_bounded(play):
    async def scene(harness):
        first, _ = harness.several(2)
        harness.dispatcher.slots.placement = Placement(most=2)
        for name in "abc":
            first.on_report(AdapterChanged("", name, b"{}"))
        await submit(harness, "base")
        await submit(harness, "1", adapter="a")
        await submit(harness, "2", adapter="c")
        assert running(harness) == [["base", "2"], ["1"]]

    play(scene)


async def crash_of(harness, worker, *names):
    """Let what ran on a worker wait to run again, alone, as after a crash."""
    for name in reversed(names):
        run = worker.running.pop(name)
        run.crashes = 1
        harness.dispatcher.slots.requeue(run)


def test_while_one_waits_to_run_alone_one_worker_empties_and_the_other_goes_on(play):
    async def scene(harness):
        first, second = harness.several(2, slots=2)
        for name in "abcd":
            await submit(harness, name)
        await crash_of(harness, first, "a")
        harness.dispatcher.slots.advance()
        assert running(harness) == [["c"], ["b", "d"]]
        await submit(harness, "e")
        end(harness, "d")
        assert running(harness) == [["c"], ["b", "e"]]  # the first takes none, though it is free
        await submit(harness, "f")
        end(harness, "c")
        assert running(harness) == [["a"], ["b", "e"]]
        end(harness, "b")
        assert running(harness) == [["a"], ["e", "f"]]
        end(harness, "a")
        await submit(harness, "g")
        assert running(harness) == [["g"], ["e", "f"]]

    play(scene)


def test_the_first_worker_that_is_empty_runs_it_whichever_was_held(play):
    async def scene(harness):
        first, second = harness.several(2, slots=2)
        for name in "abcd":
            await submit(harness, name)
        await crash_of(harness, first, "a")
        harness.dispatcher.slots.advance()
        end(harness, "b", "d")
        assert running(harness) == [["c"], ["a"]]
        await submit(harness, "e")
        assert running(harness) == [["c", "e"], ["a"]]

    play(scene)


def test_of_two_that_run_alone_the_second_waits_for_the_first_and_the_other_worker_goes_on(play):
    async def scene(harness):
        first, second = harness.several(2, slots=2)
        for name in "abc":
            await submit(harness, name)
        await crash_of(harness, first, "a", "c")
        harness.dispatcher.slots.advance()
        assert running(harness) == [["a"], ["b"]]
        for name in "de":
            await submit(harness, name)
        assert running(harness) == [["a"], ["b", "d"]]
        end(harness, "b")
        assert running(harness) == [["a"], ["d", "e"]]
        end(harness, "a")
        assert running(harness) == [["c"], ["d", "e"]]

    play(scene)


@pytest.mark.parametrize("number", [2, 3])
def test_one_that_runs_alone_starts_however_much_comes_of_others(play, number):
    async def scene(harness):
        first, *_ = harness.several(number, slots=4)
        busy = [f"x{i}" for i in range(4 * number)]
        for name in busy:
            await submit(harness, name, owner="ann")
        guilty = first.running[f"ann/{busy[0]}"]
        await crash_of(harness, first, f"ann/{busy[0]}")
        for turn in range(4 * number):
            await submit(harness, f"y{turn}", owner="bob")
            if guilty not in harness.dispatcher.waiting:
                break
            oldest = next(iter(harness.dispatcher.workers[turn % number].running.values()))
            harness.dispatcher.end(oldest, Finished(oldest.id, "succeeded"))
        (alone,) = [each for each in harness.dispatcher.workers if guilty.run_id in each.running]
        assert len(alone.running) == 1
        others = [len(each.running) for each in harness.dispatcher.workers if each is not alone]
        assert all(others)

    play(scene, max_queue=50)


def test_one_that_runs_alone_and_is_cancelled_holds_no_worker(play):
    async def scene(harness):
        first, second = harness.several(2, slots=2)
        for name in "abcd":
            await submit(harness, name)
        await crash_of(harness, first, "a")
        await submit(harness, "e")
        assert running(harness) == [["c"], ["b", "d"]]
        harness.dispatcher.cancel("a")
        assert running(harness) == [["c", "e"], ["b", "d"]]

    play(scene)


@pytest.mark.parametrize(
    "inputs",
    [
        *({}, {"examples": []}, {"examples": ""}, {"examples_file": None, "adapter": ""}),
        *({"text": 5}, [1]),
    ],
)
def test_a_request_without_examples_and_adapter_has_no_wish(inputs):
    assert read_affinity(json.dumps(inputs, separators=(",", ":")).encode(), "ann") == Affinity()
