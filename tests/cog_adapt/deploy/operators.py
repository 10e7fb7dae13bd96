"""What `.ci/operators` fetches: programs and schemas; without it the tests that ask are skipped."""

import functools
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from referencing import Registry, Resource

from bench.deployments.watching import OPERATORS, of_debian

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
_OF_PYPI = ("docker-compose", "kubectl")
_SCHEMAS = "lib/python*/site-packages/kubernetes_validate/kubernetes-json-schema/v*-local-strict"


def program(name: str) -> Path:
    """Return a program's path, or skip the test."""
    found = OPERATORS / "bin" / name if name in _OF_PYPI else of_debian(name)
    if not found.is_file():
        pytest.skip(f"{name} is not here: `.ci/operators` fetches it")
    return found


def run(
    name: str,
    *arguments: str | Path,
    more: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    command = [str(program(name)), *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(more or {})}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


@functools.cache
def schemas() -> tuple[Path, ...]:
    """Return Kubernetes' own strict schemas, a folder a release, the oldest first; or skip."""
    found = sorted(OPERATORS.glob(_SCHEMAS), key=lambda path: int(path.name.split(".")[1]))
    if not found:
        pytest.skip("Kubernetes' schemas are not here: `.ci/operators` fetches them")
    return tuple(found)


@functools.cache
def _definitions(folder: Path) -> Resource[Any]:
    return Resource.from_contents(json.loads((folder / "_definitions.json").read_text()))


def faults(resource: Mapping[str, Any], release: Literal["oldest", "newest"]) -> list[str]:
    """Return a resource's faults, each with its place; a key that is unknown is one."""
    folder = schemas()[{"oldest": 0, "newest": -1}[release]]
    group, _, version = resource["apiVersion"].rpartition("/")
    name = "-".join(filter(None, (resource["kind"].lower(), group.partition(".")[0], version)))
    schema = json.loads((folder / f"{name}.json").read_text())
    validator = jsonschema.Draft202012Validator(schema, registry=_definitions(folder) @ Registry())
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(resource)]
