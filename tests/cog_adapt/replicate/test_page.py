"""`docs/replicate.md`: its commands run, and it names every route."""

import os
import re
import subprocess
import sys

from cog_adapt.server.middleware.platform_routes import PLATFORM_NEEDS
from tests.cog_adapt.replicate.packages import ROOT, javascript_environment, python2_environment

PAGE = (ROOT / "docs" / "replicate.md").read_text()
WORDS = ["Where", "is", "my", "parcel?"]


def block(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return code


def printed(command, environment, cwd):
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return re.findall(r"[\w?]+", done.stdout)


def test_both_python_clients_run_what_the_page_shows(server, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(block("python"))
    for version in (
        {"REPLICATE_BASE_URL": server.url, "REPLICATE_API_TOKEN": "ada-key"},
        python2_environment(server.url, "ada-key"),
    ):
        assert printed([sys.executable, str(script)], version, tmp_path) == WORDS


def test_the_javascript_client_runs_what_the_page_shows(server, tmp_path):
    node, environment = javascript_environment(server.url, "ada-key")
    assert printed([node, "-e", block("js")], environment, tmp_path) == WORDS


def test_the_page_names_each_route():
    written = PAGE.replace("…", "/v1/models/O/N")
    for route in PLATFORM_NEEDS:
        path = route.split()[1].replace("{owner}/{name}", "O/N").replace("{version}", "V")
        path = path.replace("{id}", "ID")
        assert path in written or path.endswith("/stream"), route
    assert len(PAGE.splitlines()) <= 60
