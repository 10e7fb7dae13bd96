"""Models of these tests are drawn from one seed, whichever test ran before.

Beside torch, rich, numpy and pytest some files need a library; without it they are left out.
"""

import gc
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

NEEDED = {
    "test_library_models.py": ("transformers",),
    "test_lightning.py": ("lightning", "pytorch_lightning"),
    "test_ownership.py": ("transformers",),
    "test_stories.py": ("lightning", "transformers"),
    "test_trainer_callback.py": ("transformers", "accelerate"),
    "test_wheel.py": ("pip",),
}
MISSING = {
    file: absent
    for file, names in NEEDED.items()
    if (absent := [name for name in names if find_spec(name) is None])
}
collect_ignore = list(MISSING)
MARKERS = (
    "gpu: needs a CUDA device; skipped with a reason where there is none",
    "flaky: runs again after a failure, where pytest-rerunfailures is there",
)


def pytest_configure(config: pytest.Config) -> None:
    """Set here what the settings of a checkout set too; they may not be around these tests."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.addinivalue_line("filterwarnings", "error")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files are left out, and for want of what."""
    for file, names in MISSING.items():
        terminalreporter.write_line(f"LEFT OUT {file}: {', '.join(names)} is not installed")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def thawed() -> Iterator[None]:
    """Let the collector see the globals of test modules, which a run of all tests freezes."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    if was_frozen:
        gc.freeze()
