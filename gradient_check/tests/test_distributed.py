"""A module that is spread over processes is refused by name; before it is wrapped, it is checked.

Two real processes of gloo: no mock says what a copy of such a module does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
PROGRAM = "gradient_check.tests.two_processes"
REFUSED = {
    "ddp": ("module is a DistributedDataParallel,", "before wrapping it, or `module.module`."),
    "ddp inside": ("module.net is a DistributedDataParallel,", "or `module.net.module`."),
    "fsdp": ("module is an FSDP module,", "Check the module before wrapping it, on one process."),
    "fully_shard": ("module is an FSDP module,", "Check the module before wrapping it"),
    "fully_shard inside": ("module.2 is an FSDP module,", "Check the module before wrapping it"),
    "tensor parallel": ("module.0.weight is a DTensor,", "Check the module before wrapping it"),
}

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch was built without torch.distributed"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes found, by the kind of wrapper."""
    store = tmp_path_factory.mktemp("processes") / "store"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(rank), str(store)],
            cwd=ROOT,
            env=variables,
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    try:
        errors = [process.communicate(timeout=200)[1].decode() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], errors
    return [json.loads(Path(f"{store}.{rank}").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_module_that_is_spread_over_processes_is_refused_by_name(
    kind: str, found: list[dict[str, Any]]
) -> None:
    for text in ("refused: ", *REFUSED[kind]):
        assert all(text in each[kind]["wrapped"] for each in found), found


def test_before_wrapping_the_check_is_right_in_each_process(found: list[dict[str, Any]]) -> None:
    assert all(each[kind]["before"] for each in found for kind in REFUSED)


def test_what_ddp_has_wrapped_is_checked_by_one_process_and_trains_on(
    found: list[dict[str, Any]],
) -> None:
    first, second = (each["ddp"] for each in found)
    assert first["within"]
    assert first["gradients"] == second["gradients"]  # they are still averaged
    assert len(first["gradients"]) == 4
