"""The config file of `serve deploy`, by Ray's own schema."""

import importlib.util

import pytest

from tests.cog_adapt.deploy.test_manifests import SERVE

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's, of pydantic


def test_the_config_file_is_one_of_ray_serve():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `make ray` installs it beside, and runs these tests")
    from ray.serve.schema import ServeDeploySchema

    assert ServeDeploySchema.model_validate(SERVE).applications[0].name == "cog-adapt"
    with pytest.raises(ValueError, match="replicas"):
        ServeDeploySchema.model_validate(SERVE | {"replicas": 2})
