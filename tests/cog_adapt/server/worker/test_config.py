"""What a worker is told to do."""

import dataclasses
import math
import pickle
from typing import Any

import pytest

from cog_adapt.server.worker.config import WorkerConfig


def test_only_the_reference_has_to_be_said():
    assert dataclasses.asdict(WorkerConfig("predict.py:Predictor")) == {
        "reference": "predict.py:Predictor",
        "kind": "predict",
        "other": None,
        "concurrency": None,
        "upload_url": None,
        "user_agent": None,
        "egress_allow": (),
        "max_file_bytes": 1024**3,
        "download_seconds": math.inf,
        "prefix": "tmp",
        "log_format": "json",
        "hang_seconds": 0.0,
    }


def test_it_travels_to_the_process_as_it_is_and_stays_so():
    config: Any = WorkerConfig(
        "a.py:A", "train", "b.py:B", 3, "http://up", "agent", ("h",), 5, 60.0, "tmpx"
    )
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.kind = "predict"
