"""How far a setup has come."""

from datetime import UTC, datetime

from cog_adapt.server.service.setup_progress import SetupProgress
from gradient_check.tests.present import present


def test_a_setup_that_has_begun_has_a_start_and_nothing_else():
    before = datetime.now(UTC)
    progress = SetupProgress()
    assert before <= progress.started_at <= datetime.now(UTC)
    assert (progress.completed_at, progress.error, progress.logs) == (None, None, "")
    assert progress.self_test is None


def test_what_was_printed_is_kept_in_order():
    progress = SetupProgress()
    for line in ("one\n", "two\n"):
        progress.add_log(line)
    assert progress.logs == "one\ntwo\n"


def test_the_reason_of_a_failure_ends_the_logs():
    progress = SetupProgress()
    progress.add_log("loading\n")
    progress.fail("no weights")
    assert (progress.error, progress.logs) == ("no weights", "loading\nno weights\n")
    assert progress.completed_at is None


def test_its_end_has_a_time():
    progress = SetupProgress()
    progress.complete()
    assert progress.started_at <= present(progress.completed_at) <= datetime.now(UTC)
