"""The mirror's image in a real engine: built from the Dockerfile, run as hardened as it goes."""

import json
import os
import re
import subprocess
import sys

import httpx2
import pytest

from cog_adapt.server.middleware.keys import make_key
from tests.cog_adapt.container.base_image import ROOT
from tests.cog_adapt.container.containers import (
    HARDENED,
    Container,
    example_file,
    running,
    started,
    volume,
)
from tests.cog_adapt.contract.serving import free_port

READ_ME = re.findall(r"`docker ([^`]+)`", (ROOT / "README.md").read_text())
LONG = {"steps": 2000, "budget_seconds": 20}
MODEL_PROCESS = """
import os, pathlib, signal
for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"spawn_main" in line.read_bytes() and line.parent.name != str(os.getpid()):
        os.kill(int(line.parent.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def server(engine, image):
    """The image, running with all that Docker can take away taken away."""
    with volume(engine) as data, running(engine, image, *HARDENED, "-v", f"{data}:/data") as made:
        yield made


def test_the_bill_of_materials_has_the_locked_versions_and_pytorch(engine, image, tmp_path):
    bill = tmp_path / "sbom.json"
    command = ["make", "sbom", f"IMAGE={image}", f"SBOM={bill}"]
    subprocess.run(command, cwd=ROOT, env=engine.environment, check=True)
    found = {each["name"].lower(): each for each in json.loads(bill.read_text())["components"]}
    assert found["torch"]["licenses"]
    lock = (ROOT / "requirements.lock").read_text()
    names = {re.sub("[-_.]+", "-", name): each["version"] for name, each in found.items()}
    assert dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)).items() <= names.items()


def test_the_bench_names_the_bytes_of_each_layer_and_times_cold_and_warm_starts(
    engine, image, tmp_path
):
    output = tmp_path / "image.json"
    command = [sys.executable, "-m", "bench.image", image, "--rounds", "1", "--output", str(output)]
    subprocess.run(command, cwd=ROOT, env=os.environ | engine.environment, check=True)
    found = json.loads(output.read_text())
    assert found["bytes"] == sum(each["bytes"] for each in found["layers"]) > 5e8
    assert max(found["layers"], key=lambda each: each["bytes"])["made by"].count("pip install")
    assert found["medians"]["cold"] > found["medians"]["warm"] > 1


def test_the_build_took_pytorch_without_cuda(engine, image):
    command = ("python", "-c", "import torch; print(torch.__version__)")
    assert engine.docker("run", "--rm", image, *command).endswith("+cpu")


def test_the_base_is_an_argument(engine, image):
    with pytest.raises(AssertionError, match=r"(?s)\n.*load metadata for \S*no-such-base:0"):
        engine.docker("build", "--build-arg", "BASE=no-such-base:0", str(ROOT))


def test_it_is_built_and_run_as_the_readme_says(engine, image):
    """The build's command, but for the network and the index of PyTorch; the run's as it stands."""
    build, run = (each.split() for each in READ_ME)
    assert build == ["build", "-t", "cog-adapt", "."]
    assert run[:4] == ["run", "--read-only", "--tmpfs", "/tmp"]
    engine.docker("tag", image, "cog-adapt")
    port = free_port()
    published = [each.replace(":5000:", f":{port}:") for each in run[1:]]
    name = engine.docker("run", "--detach", *published)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            container = Container(engine, name, client)
            container.wait_until(lambda: client.get("/readyz").status_code == 200)
            assert "records" in container.execute("ls", "/data")
    finally:
        engine.docker("rm", "--force", name)
        engine.docker("volume", "rm", "cog-adapt")


def test_no_process_has_a_privilege(server):
    statuses = server.execute("sh", "-c", "cat /proc/[0-9]*/status").splitlines()
    assert {line.split()[1] for line in statuses if line.startswith("Uid:")} == {"1000"}
    assert {line.split()[1] for line in statuses if line.startswith("CapEff:")} == {"0" * 16}


def test_only_the_volume_and_tmp_can_be_written(server):
    probe = "for folder in / /src /home/server /data /tmp; do touch $folder/x && echo $folder; done"
    assert server.execute("sh", "-c", f"{probe}; true").split() == ["/data", "/tmp"]


def test_docker_calls_it_healthy(server):
    server.wait_until(server.is_healthy)


def test_docker_calls_it_healthy_where_only_keys_see_more(engine, image, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(make_key("ci", ["predict"])[1])
    options = ("-v", f"{keys}:/keys:ro", "-e", "API_KEYS_FILE=/keys")
    with started(engine, image, *HARDENED, *options) as guarded:
        guarded.wait_until(guarded.is_healthy)
        assert guarded.client.get("/readyz").json() == {"ready": True, "status": "READY"}


def test_the_self_test_passed(server):
    assert server.get("/selftest")["passed"] is True


def test_a_prediction_adapts_to_the_examples_it_carries(server):
    values = {"text": "Where is my parcel?", "examples_file": example_file("tickets.jsonl")}
    output = server.succeed("/predictions", values | {"steps": 10})
    assert output["adapter"]
    losses = output["report"]["losses"]
    assert losses[-1] < losses[0]


def test_a_prediction_names_the_adapter_that_a_training_made(server):
    examples = example_file("tickets_train.jsonl")
    trained = server.succeed("/trainings", {"examples_file": examples, "steps": 10})
    adapter = trained["report"]["adapter"]
    output = server.succeed("/predictions", {"text": "Where is my parcel?", "adapter": adapter})
    assert output["adapter"] == adapter


def test_a_killed_model_process_is_replaced(server):
    server.execute("python", "-c", MODEL_PROCESS)
    server.wait_until(lambda: "crashes" in server.get("/health-check"))
    server.wait_until(server.is_ready)
    assert server.succeed("/predictions", {"text": "hello", "labels": ["greeting", "farewell"]})


def test_it_serves_in_kubernetes_with_a_read_only_root(engine, image):
    options = (*HARDENED, "-e", "KUBERNETES_SERVICE_HOST=10.0.0.1")
    with started(engine, image, *options) as pod:
        pod.wait_until(lambda: pod.client.get("/readyz").status_code != 503)
        assert pod.client.get("/readyz").status_code == 200


def test_stopping_drains_and_the_record_outlives_the_container(engine, image):
    with volume(engine) as data:
        options = (*HARDENED, "-v", f"{data}:/data")
        with running(engine, image, *options) as first:
            values = {"text": "Where is my parcel?", "examples_file": example_file("tickets.jsonl")}
            accepted = first.post("/predictions", values | LONG, {"Prefer": "respond-async"})
            path = f"/predictions/{accepted['id']}"
            first.wait_until(lambda: first.get(path)["status"] == "processing")
            assert first.stop(600) == 0
        with running(engine, image, *options) as second:
            record = second.get(path)
    assert record["status"] == "succeeded", record
    assert record["output"]["adapter"]
