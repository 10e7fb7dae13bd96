"""API keys of each scope, and a file that holds them."""

import pytest

from cog_adapt.server.middleware.keys import make_key


@pytest.fixture(scope="module")
def made():
    return {scope: make_key(f"{scope}-user", [scope]) for scope in ("predict", "train", "admin")}


@pytest.fixture
def key_file(made, tmp_path):
    path = tmp_path / "keys"
    path.write_text("\n".join(line for _, line in made.values()))
    return path


@pytest.fixture
def bearer(made):
    return {scope: {"Authorization": f"Bearer {key}"} for scope, (key, _) in made.items()}
