"""schemathesis finds nothing on the mirror's own OpenAPI document.

Its examples, edge cases, random and stateful requests, with all of its checks: no server errors,
only documented statuses, types and bodies, wrong data refused, right data accepted, 405 with Allow.

SCHEMATHESIS_EXAMPLES=500 asks for more than the few of CI, and for other ones each time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.contract.serving import serving

FUZZED = Path(__file__).parent / "fuzzed"
EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES")
AT_LENGTH = ("--max-examples", str(EXAMPLES), "--generation-database", "none")
IN_SHORT = ("--max-examples", "4", "--generation-deterministic")
MOST_SECONDS = 3600 if EXAMPLES else 300


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed")
    for source in FUZZED.glob("*.py"):
        shutil.copy(source, folder)
    stubs = ("fuzzed.py:Predictor", "fuzzed_train.py:train")
    with serving("mirror", folder, predict=stubs[0], train=stubs[1]) as server:
        yield server


def test_schemathesis_finds_nothing(server, tmp_path):
    command = [
        *(sys.executable, "-m", "schemathesis.cli"),
        *("--config-file", str(FUZZED / "schemathesis.toml")),
        *("run", f"{server.url}/openapi.json", "--exclude-path", "/shutdown"),
        *("--no-color", "--continue-on-failure", *(AT_LENGTH if EXAMPLES else IN_SHORT)),
    ]
    found = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(FUZZED)},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2_000:]
    assert "38 selected / 39 total" in found.stdout  # all but /shutdown
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in found.stdout, found.stdout[-5_000:]
    assert "request failed" not in server.text()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", f"/predictions?limit={'9' * 5000}", {}, 422),
        ("GET", "/predictions?cursor=", {}, 404),
        ("GET", "/predictions/nobody/events", {"Last-Event-ID": "9" * 5000}, 422),
        ("PUT", "/predictions/odd", {"Cancel-After": "{}"}, 422),
        ("POST", "/predictions", {"Cancel-After": "9" * 400}, 422),
        ("POST", "/predictions", {"Cancel-After": "999999h"}, 200),
        ("POST", "/predictions", {"Prefer": f"wait={'9' * 400}"}, 200),
    ],
)
def test_numbers_beyond_all_bounds_are_no_fault_of_the_server(
    server, method, path, headers, status
):
    body = None if method == "GET" else {"input": {"text": "a"}}
    assert server.request(method, path, body, headers=headers).status_code == status
