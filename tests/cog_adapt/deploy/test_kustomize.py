"""The overlays of Kustomize: kubectl renders them, and Kubernetes' strict schemas take them."""

import functools
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from cog_adapt.server.middleware.access import OPEN
from cog_adapt.server.middleware.keys import make_key
from cog_adapt.server.settings import Settings
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.deploy.operators import DEPLOY, ROOT, faults, run

END_SECONDS = 5  # as `docs/operations.md` has it: after the drain the process ends by force
OVERLAYS = sorted(path.name for path in (DEPLOY / "kubernetes/overlays").iterdir())
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
MONITORING = DEPLOY / "monitoring"
DOCUMENT = (ROOT / "docs/deploy.md").read_text()
ALONE = """
resources: [../deploy/kubernetes/overlays/cpu]
components: [../deploy/kubernetes/components/alone]
"""
Manifest = dict[str, Any]


def kustomize(folder: Path) -> list[Manifest]:
    done = run("kubectl", "kustomize", folder)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


@functools.cache
def overlay(name: str) -> list[Manifest]:
    return kustomize(DEPLOY / "kubernetes/overlays" / name)


def own(folder: Path, text: str) -> list[Manifest]:
    """What a kustomization of an operator's own makes, in a folder beside deploy/."""
    shutil.copytree(DEPLOY, folder / "deploy")
    (folder / "own").mkdir()
    (folder / "own/kustomization.yaml").write_text(text)
    return kustomize(folder / "own")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return own(tmp_path_factory.mktemp("alone"), ALONE)


@pytest.fixture(params=[*OVERLAYS, "alone"])
def rendered(request) -> list[Manifest]:
    if request.param == "alone":
        return request.getfixturevalue("alone")
    return overlay(request.param)


def of_kind(documents: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in documents if each["kind"] == kind]


def pods(documents: list[Manifest]) -> list[Manifest]:
    return [each["spec"]["template"]["spec"] for each in of_kind(documents, "Deployment")]


def server(documents: list[Manifest]) -> tuple[Manifest, Manifest, Manifest]:
    """The one server: its Deployment, its pod, its container."""
    (deployment,) = of_kind(documents, "Deployment")
    (pod,) = pods(documents)
    (container,) = pod["containers"]
    return deployment["spec"], pod, container


def variables(container: Manifest) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for each in container["env"]}


@pytest.mark.parametrize("release", ["oldest", "newest"])
def test_each_document_is_one_of_kubernetes(rendered, release):
    assert [fault for each in rendered for fault in faults(each, release)] == []


def test_a_field_that_is_misspelt_is_a_fault(tmp_path):
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    manifest = tmp_path / "deploy/kubernetes/base/server.yaml"
    manifest.write_text(manifest.read_text().replace("readOnlyRootFilesystem", "readOnlyRoot"))
    documents = kustomize(tmp_path / "deploy/kubernetes/overlays/cpu")
    found = [fault for each in documents for fault in faults(each, "newest")]
    assert len(found) == 1
    assert "'readOnlyRoot' was unexpected" in found[0]


def test_a_patch_of_nothing_is_refused(tmp_path):
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    patched = tmp_path / "deploy/kubernetes/overlays/gpu"
    text = (patched / "kustomization.yaml").read_text()
    (patched / "kustomization.yaml").write_text(text.replace("{name: cog-adapt}", "{name: cog}"))
    assert "no resource matches" in run("kubectl", "kustomize", patched).stderr


def test_every_pod_is_hardened(rendered):
    for pod in pods(rendered):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        requests, limits = (container["resources"][name] for name in ("requests", "limits"))
        assert requests["memory"] == limits["memory"]
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_every_container_has_its_probes(rendered):
    for pod in pods(rendered):
        (container,) = pod["containers"]
        for probe in (container[name] for name in PROBES):
            assert probe.keys() & {"httpGet", "exec"}
            port = probe.get("httpGet", {}).get("port", "http")
            assert port in [each["name"] for each in container["ports"]]


def test_replicas_share_their_data_or_are_replaced_one_by_one(rendered):
    claims = of_kind(rendered, "PersistentVolumeClaim")
    shared = {
        each["metadata"]["name"]
        for each in claims
        if each["spec"]["accessModes"] == ["ReadWriteMany"]
    }
    for deployment, pod in zip(of_kind(rendered, "Deployment"), pods(rendered), strict=True):
        named = {
            each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["volumes"]
        } - {None}
        spec = deployment["spec"]
        is_alone = spec["replicas"] == 1 and spec["strategy"] == {"type": "Recreate"}
        assert is_alone is not bool(named & shared)


def test_every_service_has_pods_and_their_port(rendered):
    servers = overlay("cpu")  # the monitoring asks the servers of another overlay
    deployments = of_kind([*rendered, *servers], "Deployment")
    templates = [each["spec"]["template"] for each in deployments]
    for service in of_kind(rendered, "Service"):
        (port,) = service["spec"]["ports"]
        chosen = [
            each for each in templates if each["metadata"]["labels"] == service["spec"]["selector"]
        ]
        assert chosen
        known = chosen[0]["spec"]["containers"][0]["ports"][0]
        assert port.get("targetPort", port["port"]) in (known["name"], known["containerPort"])


def secrets_of(documents: list[Manifest]) -> set[tuple[str, str]]:
    """The secrets that pods read, each by its name and the name of a value."""
    found = set()
    for pod in pods(documents):
        for each in (volume["secret"] for volume in pod["volumes"] if "secret" in volume):
            found |= {(each["secretName"], item["key"]) for item in each["items"]}
        for variable in pod["containers"][0].get("env", []):
            if "valueFrom" in variable:
                named = variable["valueFrom"]["secretKeyRef"]
                found.add((named["name"], named["key"]))
    return found


def test_secrets_are_named_and_never_there(rendered, tmp_path):
    """The command of the document makes all that the overlays name."""
    assert of_kind(rendered, "Secret") == []
    command = re.search(r"^kubectl (create secret (?:.*\\\n)*.*)$", DOCUMENT, re.MULTILINE)
    assert command
    for name in ("keys", "metrics-key"):
        (tmp_path / name).write_text(name)
    arguments = shlex.split(command[1].replace("\\\n", ""))
    asked = ("--dry-run=client", "--output", "yaml")
    done = run("kubectl", *arguments, *asked, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    there = {(made["metadata"]["name"], key) for key in made["data"]}
    assert secrets_of(rendered)
    assert secrets_of(rendered) <= there


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_servers_share_a_database_and_a_volume(name):
    documents = overlay(name)
    deployment, pod, container = server(documents)
    assert deployment["replicas"] == 2
    assert "DATABASE_URL" in variables(container)
    budget, service = (of_kind(documents, kind)[0] for kind in ("PodDisruptionBudget", "Service"))
    labels = deployment["template"]["metadata"]["labels"]
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert service["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    assert container["ports"] == [{"name": "http", "containerPort": Settings().port}]
    assert {"/data", "/tmp", "/var/run/cog"} <= {
        each["mountPath"] for each in container["volumeMounts"]
    }


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_a_server_has_time_to_drain(name):
    _, pod, container = server(overlay(name))
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    drain = float(variables(container)["DRAIN_SECONDS"] or 0)
    assert pod["terminationGracePeriodSeconds"] > float(seconds) + drain + END_SECONDS


def test_the_device_is_the_overlays():
    _, _, container = server(overlay("cpu"))
    assert variables(container)["DEVICE"] == "cpu"
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "4Gi"}
    deployment, pod, container = server(overlay("gpu"))
    assert variables(container)["DEVICE"] == "cuda"
    assert container["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": 1}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_a_server_alone_needs_no_database(alone):
    _, _, container = server(alone)
    assert "DATABASE_URL" not in variables(container)
    assert secrets_of(alone) == {("cog-adapt", "api-keys")}
    assert of_kind(alone, "PodDisruptionBudget") == []


def test_the_kustomization_of_the_document_is_taken(tmp_path):
    (text,) = re.findall(r"```yaml\n(# own/kustomization.yaml.*?)```", DOCUMENT, re.DOTALL)
    documents = own(tmp_path, text.replace("…", "0" * 64))
    assert len(of_kind(documents, "Deployment")) == 4
    images = {pod["containers"][0]["image"] for pod in pods(documents)}
    assert f"REGISTRY/cog-adapt@sha256:{'0' * 64}" in images
    assert [fault for each in documents for fault in faults(each, "newest")] == []


def files_of(name: str) -> dict[str, str]:
    """The files of a ConfigMap of the monitoring."""
    maps = of_kind(overlay("monitoring"), "ConfigMap")
    (found,) = [each["data"] for each in maps if each["metadata"]["name"].startswith(f"{name}-")]
    return found


def test_the_monitoring_has_the_files_of_deploy_monitoring():
    sources = {path.name: path.read_text() for path in MONITORING.rglob("*.*")}
    sources |= {"prometheus.yml": files_of("prometheus")["prometheus.yml"]}
    taken = {**files_of("prometheus"), **files_of("alertmanager"), **files_of("grafana")}
    assert taken == {name: sources[name] for name in sources if name != "kustomization.yaml"}


def test_prometheus_and_alertmanager_take_what_is_mounted(tmp_path):
    for name, text in {**files_of("prometheus"), **files_of("alertmanager")}.items():
        (tmp_path / name).write_text(text.replace("/run/secrets/cog-adapt", str(tmp_path)))
    (tmp_path / "metrics-key").write_text("ca_key")
    for command in ("promtool check config prometheus.yml", "amtool check-config alertmanager.yml"):
        done = run(*command.split(), folder=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout


def test_prometheus_asks_as_in_compose_but_by_addresses_and_a_key():
    ours = yaml.safe_load(files_of("prometheus")["prometheus.yml"])
    (job,) = ours.pop("scrape_configs")
    compose = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    assert job["job_name"] == compose.pop("scrape_configs")[0]["job_name"]
    assert ours == compose
    (found,) = job["dns_sd_configs"]
    services = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(overlay("monitoring"), "Service")
    }
    servers = services[found["names"][0]]
    assert (servers["clusterIP"], servers["ports"][0]["port"]) == ("None", found["port"])
    assert servers["publishNotReadyAddresses"]
    (alerts,) = ours["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    source = yaml.safe_load(files_of("grafana")["datasource.yaml"])["datasources"][0]["url"]
    for address in (alerts, source.removeprefix("http://")):
        name, _, port = address.partition(":")
        assert services[name]["ports"][0]["port"] == int(port)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with keys, as all overlays start it; and a key."""
    folder = tmp_path_factory.mktemp("guarded")
    key, line = make_key("prometheus", ["predict"])
    (folder / "keys").write_text(line)
    env = {"API_KEYS_FILE": str(folder / "keys")}
    with serving("mirror", folder, predict="functions.py:shout", env=env, until="up") as started:
        yield started, key


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_no_probe_needs_a_key(guarded, name):
    """The file is kept without a question: `test_kubernetes_is_told`."""
    started, key = guarded
    _, _, container = server(overlay(name))
    paths = {container[probe]["httpGet"]["path"] for probe in (PROBES[0], PROBES[2])}
    assert paths <= OPEN
    assert {started.get(path).status_code for path in (*paths, "/readyz")} <= {200, 503}
    assert {started.get(path).status_code for path in paths} == {200}
    assert container[PROBES[1]]["exec"]["command"] == ["test", "-f", "/var/run/cog/ready"]
    assert started.get("/metrics").status_code == 401
    assert started.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code == 200
