"""The config file of `serve deploy`, by Ray's own schema."""

import importlib.util

import pytest

from tests.cog_adapt.deploy.test_manifests import SERVE

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's, of pydantic


def test_the_config_file_is_one_of_ray_serve():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `make ray` installs it beside, and runs these tests")
    from ray.serve.schema import HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

    (application,) = ServeDeploySchema.model_validate(SERVE).applications
    assert application.args == SERVE["applications"][0]["args"]
    parts = {  # Ray itself takes no notice of a key that it does not know
        ServeDeploySchema: SERVE,
        HTTPOptionsSchema: SERVE["http_options"],
        ServeApplicationSchema: SERVE["applications"][0],
    }
    assert [{*values} - {*model.model_fields} for model, values in parts.items()] == [set()] * 3
