"""What a prediction under way says, and which one code belongs to."""

import threading
import time

import pytest

from cog_adapt.server.protocol import Log, Run
from cog_adapt.server.worker import active
from cog_adapt.server.worker.active import (
    ActivePrediction,
    find_active,
)


class Sent:
    def __init__(self):
        self.sent = []

    def prediction(self, prediction_id="p"):
        return ActivePrediction(Run(prediction_id, b"{}", {}), self.sent.append)


@pytest.fixture
def sent():
    yield Sent()
    for each in active.running_predictions():
        each.end("canceled")


def test_the_end_goes_out_after_the_unterminated_line(sent):
    prediction = sent.prediction()
    time.sleep(0.2)  # it waits for its turn
    prediction.begin()
    prediction.lines.write("stdout", "one\ntwo")
    time.sleep(0.02)
    prediction.end("failed", "boom", is_list=True)
    *logs, finished = sent.sent
    assert logs == [Log("p", "stdout", "one\n"), Log("p", "stdout", "two")]
    assert (finished.id, finished.status, finished.is_list) == ("p", "failed", True)
    assert finished.error == "boom"
    assert 0.02 <= finished.predict_time < 0.2


def test_a_thread_belongs_to_the_only_one_that_runs(sent):
    def found():
        results = []
        thread = threading.Thread(target=lambda: results.append(find_active()))
        thread.start()
        thread.join()
        return results[0]

    one, two = sent.prediction("one"), sent.prediction("two")
    assert found() is None
    one.begin()
    assert found() is one
    two.begin()
    assert found() is None
    one.end("succeeded")
    assert found() is two
