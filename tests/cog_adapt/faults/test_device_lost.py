"""A model process whose device failed for good says so, is ended and started again."""

from tests.cog_adapt.faults.cluster import SECONDS, record, statuses, submit, until_gone
from tests.cog_adapt.waiting import wait_for

FAILED = "the device cuda:0 failed: device-side assert triggered"
CAUSE = f"could not continue, and was ended: {FAILED}"


def test_what_lost_the_device_has_failed_and_the_next_one_runs_in_a_new_process(cluster):
    server = cluster.start(env={"HANG_SECONDS": "0"})  # no hang is looked for
    [worker] = server.workers()
    submit(server, "lost", action="lose_device")
    submit(server, "next", seconds=2)  # where it began too early, it would be lost as well
    assert statuses(server, "lost", "next") == {"lost": "failed", "next": "succeeded"}
    assert FAILED in record(server, "lost")["error"]
    until_gone(worker)
    wait_for(lambda: server.health()["status"] == "READY", SECONDS)
    health = server.health()
    assert (health["crashes"], health["last_crash"]) == (1, CAUSE)
    cluster.assert_run("lost", "next")
