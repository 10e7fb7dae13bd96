"""The image of a made project that draws pictures: it learns and draws, and writes nothing else."""

import pytest

from cog_adapt.command import new
from tests.cog_adapt.container.containers import HARDENED, example_file, running, volume


@pytest.fixture(scope="module")
def server(engine, build, tmp_path_factory):
    project = tmp_path_factory.mktemp("made") / "style"
    new.write_project(project, "diffusion")
    image = build("my-style", (project / "Dockerfile").read_text(), project)
    with volume(engine) as data, running(engine, image, *HARDENED, "-v", f"{data}:/data") as made:
        yield made


def test_its_self_test_passed(server):
    assert server.get("/selftest")["passed"] is True


def test_it_learns_letters_and_draws_in_their_style(server):
    letters = example_file("diffusion/examples/letters.zip")
    values = {"prompt": "Hi", "input_images": letters, "steps": 3, "seed": 1}
    answer = server.post("/predictions", values)
    assert answer["status"] == "succeeded", answer
    (picture,) = answer["output"]
    assert picture.startswith("data:image/png")
    adapter = answer["metrics"]["adaptation"]["adapter"]
    again = server.succeed("/predictions", {"prompt": "Hi", "adapter": adapter, "seed": 1})
    assert again == [picture]
