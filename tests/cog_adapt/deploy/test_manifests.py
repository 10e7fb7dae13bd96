"""The manifests of Kubernetes and of KubeRay: real schemas, and what the server needs."""

import importlib.util
import json
import os
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.server.middleware.access import OPEN
from cog_adapt.server.settings import Settings
from deploy.ray.options import Options

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
SERVER = list(yaml.safe_load_all((DEPLOY / "kubernetes/server.yaml").read_text()))
RAY = yaml.safe_load((DEPLOY / "ray/rayservice.yaml").read_text())
SERVE = yaml.safe_load((DEPLOY / "ray/serve.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = "v1.37.0"
END_SECONDS = 5  # as `docs/operations.md` has it: after the drain the process ends by force

deployment = next(each for each in SERVER if each["kind"] == "Deployment")["spec"]
pod = deployment["template"]["spec"]
(container,) = pod["containers"]
cluster = RAY["spec"]["rayClusterConfig"]
(workers,) = cluster["workerGroupSpecs"]
groups = [cluster["headGroupSpec"], workers]


@pytest.fixture(scope="module")
def schemas():
    """The folder of Kubernetes' own schemas, in which a key that is unknown is a fault."""
    found = importlib.util.find_spec("kubernetes_validate")
    if found is None or found.origin is None:
        pytest.skip("kubernetes-validate is not installed: `make ray` installs it beside")
    return Path(found.origin).parent / "kubernetes-json-schema" / f"{VERSION}-local-strict"


def faults(resource, schemas):
    """The faults of a resource, each with its place."""
    group, _, version = resource["apiVersion"].rpartition("/")
    name = "-".join(filter(None, (resource["kind"].lower(), group.partition(".")[0], version)))
    schema = json.loads((schemas / f"{name}.json").read_text())
    known = Resource.from_contents(json.loads((schemas / "_definitions.json").read_text()))
    validator = jsonschema.Draft202012Validator(schema, registry=known @ Registry())
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(resource)]


@pytest.mark.parametrize("resource", SERVER, ids=lambda each: each["kind"])
def test_each_resource_is_one_of_kubernetes(schemas, resource):
    assert faults(resource, schemas) == []


@pytest.mark.parametrize("group", groups, ids=["head", "workers"])
def test_the_pods_of_ray_are_pods_of_kubernetes(schemas, group):
    resource = {"apiVersion": "v1", "kind": "PodTemplate", "template": group["template"]}
    assert faults(resource, schemas) == []


def test_a_key_that_is_unknown_is_a_fault(schemas):
    wrong = {**SERVER[0], "spec": SERVER[0]["spec"] | {"accessMode": "ReadWriteMany"}}
    assert "accessMode" in "".join(faults(wrong, schemas))


def strict(schema):
    """A schema of a CRD, in which a key that is unknown is a fault."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def test_the_ray_service_is_one_of_kuberay():
    """No registry has its CRD: KUBERAY_CRD names KubeRay's own file of it."""
    path = os.environ.get("KUBERAY_CRD")
    if not path:
        pytest.skip("KUBERAY_CRD does not name KubeRay's ray.io_rayservices.yaml")
    versions = yaml.safe_load(Path(path).read_text())["spec"]["versions"]
    served = next(each for each in versions if each["name"] == "v1")["schema"]["openAPIV3Schema"]
    schema = strict(served) | {"properties": strict(served["properties"]) | {"metadata": {}}}
    found = jsonschema.Draft202012Validator(schema).iter_errors(RAY)
    assert [f"{each.json_path}: {each.message}" for each in found] == []


def test_no_probe_needs_a_key():
    probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {each["httpGet"]["path"] for each in probes if "httpGet" in each} <= OPEN
    assert probes[2]["exec"]["command"] == ["test", "-f", "/var/run/cog/ready"]


def environment_of(each):
    return {variable["name"]: variable.get("value") for variable in each["env"]}


def test_a_server_has_time_to_drain():
    drain = float(environment_of(container)["DRAIN_SECONDS"])
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > before + drain + END_SECONDS


def test_a_replica_has_time_to_drain_before_its_node_ends():
    seconds = Options.model_validate(arguments(SERVE)).seconds_to_end
    assert workers["template"]["spec"]["terminationGracePeriodSeconds"] >= seconds
    assert RAY["spec"]["rayClusterDeletionDelaySeconds"] > seconds


@pytest.mark.parametrize(
    "each", [container, *(group["template"]["spec"]["containers"][0] for group in groups)]
)
def test_every_variable_is_a_setting(each):
    settings = {*Settings.model_fields, *RunnerSettings.model_fields}
    ours = [name for name in environment_of(each) if not name.startswith("RAY_")]
    assert ours
    assert [name for name in ours if name.lower() not in settings] == []


def test_what_a_server_writes_lies_on_a_volume():
    assert container["securityContext"]["readOnlyRootFilesystem"]
    volumes = {each["name"] for each in pod["volumes"]}
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert {"/data", "/tmp", "/var/run/cog"} <= mounted.keys()
    assert {*mounted.values()} == volumes


def test_all_that_selects_servers_selects_the_deployments():
    labels = deployment["template"]["metadata"]["labels"]
    by_kind = {each["kind"]: each["spec"] for each in SERVER}
    assert deployment["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert by_kind["Service"]["ports"][0]["targetPort"] in ports
    assert ports["http"] == Settings().port


def arguments(config):
    (application,) = config["applications"]
    module, _, name = application["import_path"].partition(":")
    assert f"def {name}(" in (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
    return application["args"]


def test_ray_and_kuberay_deploy_the_same():
    assert yaml.safe_load(RAY["spec"]["serveConfigV2"]) == SERVE


def test_one_version_of_ray_is_named():
    (pin,) = (DEPLOY / "ray/requirements.txt").read_text().split()
    assert PROJECT["optional-dependencies"]["ray"] == [pin]
    assert pin == f"ray[serve]=={cluster['rayVersion']}"


def test_one_version_of_the_server_is_named():
    assert container["image"].rpartition(":")[2] == PROJECT["version"]
    images = {group["template"]["spec"]["containers"][0]["image"] for group in groups}
    assert {each.rpartition(":")[2] for each in images} == {PROJECT["version"]}
