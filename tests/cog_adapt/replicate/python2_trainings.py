"""Trainings by replicate 2.0.0b4, in a process of its own; prints what each gave, as JSON."""
# mypy: ignore-errors

import json
import sys
import time
import warnings

import replicate

warnings.simplefilter("ignore")
client = replicate.Replicate()
ROWS = json.dumps([{"text": "aa", "label": "low"}, {"text": "yy", "label": "high"}])
version = client.models.get(model_owner="any", model_name="name").latest_version.id


def trained(name, **more):
    return client.trainings.create(
        model_owner="any", model_name="name", version_id=version, destination=f"ada/{name}",
        input={"examples": ROWS, **more},
    )  # fmt: skip


def ended(training):
    for turn in range(100):
        seen = client.trainings.get(training_id=training.id)
        if seen.completed_at:
            return seen
        time.sleep(turn / 100)
    return seen


made = trained("python2")
seen = ended(made)
slow = trained("never", seconds=60)
told = client.trainings.cancel(training_id=slow.id)
listed = [each.id for each in client.trainings.list()]
answers = {
    "created": [made.status, made.destination if hasattr(made, "destination") else None],
    "succeeded": [seen.status, seen.error],
    "version": seen.output.version,
    "canceled": [told.id == slow.id, ended(slow).status],
    "listed": {made.id, slow.id} <= set(listed),
    "run": client.run("any/name:python2", input={"text": "abc"}),
}
sys.stdout.write(json.dumps(answers))
