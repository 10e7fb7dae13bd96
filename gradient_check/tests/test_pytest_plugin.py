"""The fixture and the marker, in a run of pytest of their own."""

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "gradient_check.hooks.pytest_plugin"
TESTS = """
    import pytest
    import torch
    from torch import nn

    BATCH = torch.ones(3, 4)


    class Cut(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs).detach()


    def mean(output):
        return output.square().mean()


    @pytest.fixture
    def model():
        return nn.Linear(4, 2)


    @pytest.fixture
    def cut():
        return Cut(4, 2)


    def test_fixture_passes(gradients_flow, model):
        report = gradients_flow(model, BATCH, mean, precision="bf16")
        assert report.passed
        assert report.precision == "cpu/bf16"


    @pytest.mark.parametrize("names", ["model batch", "module probe"])
    def test_named(gradients_flow, model, names):
        subjects = dict(zip(names.split(), (model, BATCH)))
        assert gradients_flow(**subjects, loss=mean, precision="bf16").passed


    @pytest.mark.gradients_flow(model="model", batch=BATCH, loss=mean, precision="fp32")
    def test_marked_by_name_passes():
        pass


    @pytest.mark.gradients_flow("model", probe="batch_fixture", loss=mean)
    def test_marked_by_both_passes():
        pass


    @pytest.fixture
    def batch_fixture():
        return BATCH


    def test_fixture_fails(gradients_flow, cut):
        gradients_flow(cut, BATCH, mean)
        raise AssertionError("not reached")


    @pytest.mark.gradients_flow("model", BATCH, mean, precision="fp32")
    def test_marker_passes():
        print("the body runs")


    @pytest.mark.gradients_flow("cut", BATCH, mean)
    def test_marker_fails():
        print("the body runs, though it must not")


    @pytest.mark.gradients_flow(Cut(4, 2), BATCH, mean)
    class TestMarkedClass:
        def test_class_fails(self):
            pass


    def test_unmarked():
        pass
"""


UNDER_CI = {"CI": "", "BUILD_NUMBER": ""}  # with these the summary is longer


def run_pytest(folder, *arguments):
    flags = ["-p", PLUGIN, "-p", "no:cacheprovider", "--strict-markers", "-rA", *arguments]
    command = [sys.executable, "-m", "pytest", "--rootdir", folder, *flags, folder]
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "1000", **UNDER_CI},
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_flow.py").write_text(textwrap.dedent(TESTS))
    return run_pytest(folder)


PASSING = [
    "test_fixture_passes",
    "test_named[model batch]",
    "test_named[module probe]",
    "test_marked_by_name_passes",
    "test_marked_by_both_passes",
    "test_marker_passes",
    "test_unmarked",
]


@pytest.mark.parametrize("name", PASSING)
def test_a_model_whose_gradients_flow_passes(output, name):
    assert f"::{name}\n" in output.partition("PASSED")[2]


@pytest.mark.parametrize("name", ["test_fixture_fails", "test_marker_fails", "test_class_fails"])
def test_a_model_whose_gradients_are_cut_fails_with_the_reports_words(output, name):
    (line,) = [each for each in output.splitlines() if each.startswith("FAILED") and name in each]
    assert "gradient self-test FAILED" in line
    assert output.count("FAIL graph-cut: 2 parameters without a gradient") == 3
    assert output.count("return super().forward(inputs).detach()") >= 3


def test_the_check_comes_before_the_body(output):
    assert "the body runs\n" in output
    assert "though it must not\n" not in output
    assert "not reached" not in output
    assert "3 failed, 7 passed" in output


def test_the_package_registers_the_plugin():
    project = tomllib.loads((ROOT / "gradient_check" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"gradient_check": PLUGIN}


def test_a_run_that_checks_no_gradients_does_not_import_torch():
    code = f"import sys, {PLUGIN}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
