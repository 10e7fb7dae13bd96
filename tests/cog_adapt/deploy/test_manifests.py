"""The manifest of KubeRay, by real schemas, and what it shares with the one of Kubernetes."""

import os
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.server.settings import Settings
from deploy.ray.options import Options
from tests.cog_adapt.deploy.operators import DEPLOY, ROOT, faults

SERVER = list(yaml.safe_load_all((DEPLOY / "kubernetes/base/server.yaml").read_text()))
RAY = yaml.safe_load((DEPLOY / "ray/rayservice.yaml").read_text())
SERVE = yaml.safe_load((DEPLOY / "ray/serve.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

deployment = next(each for each in SERVER if each["kind"] == "Deployment")["spec"]
pod = deployment["template"]["spec"]
(container,) = pod["containers"]
cluster = RAY["spec"]["rayClusterConfig"]
(workers,) = cluster["workerGroupSpecs"]
groups = [cluster["headGroupSpec"], workers]


@pytest.mark.parametrize("group", groups, ids=["head", "workers"])
def test_the_pods_of_ray_are_pods_of_kubernetes(group):
    resource = {"apiVersion": "v1", "kind": "PodTemplate", "template": group["template"]}
    assert faults(resource, "oldest") == faults(resource, "newest") == []


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


def environment_of(each):
    return {variable["name"]: variable.get("value") for variable in each["env"]}


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
