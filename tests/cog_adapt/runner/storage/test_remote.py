"""A store far away: a folder, memory, or S3, here a server on loopback; other schemes by fsspec."""

import json
import sys
from dataclasses import replace
from functools import partial

import pytest

from cog_adapt.runner.errors import ConfigError, StoreError, WeightsError
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.changes import apply_changes
from cog_adapt.runner.storage.decisions import Decision
from cog_adapt.runner.storage.index import place_of
from cog_adapt.runner.storage.metadata import describe
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from gradient_check.tests.present import present
from tests.cog_adapt.runner.storage.made import adapter_of
from tests.cog_adapt.runner.storage.other_process import at_once, given_versions, name_all

pytest.importorskip("obstore", reason="obstore is not installed")
KEY = ("a" * 32, adapter_of(1).id)


@pytest.fixture(scope="module")
def s3():
    """The URL of a bucket of a server on loopback."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    account = {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in account.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem(use_ssl=False).mkdir("adapters")
        yield "s3://adapters/of/a/server"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(params=["file", "memory", "s3", "fsspec"])
def url(request, tmp_path):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    if request.param == "fsspec":  # a folder again, by a scheme that obstore does not know
        pytest.importorskip("fsspec", reason="fsspec is not installed")
        return f"local://{tmp_path}/far"
    return f"{request.param}://{tmp_path}/far"


@pytest.fixture
def remote(url):
    return Remote(url)


def known_of(owner="ann", **known):
    return replace(describe(adapter_of(1), size=100, owner=owner), **known)


def test_what_is_written_is_read_listed_and_removed(remote, url):
    assert remote.read(KEY) is remote.read_metadata(KEY) is None
    assert [*remote.keys(KEY[0])] == [*remote.keys(None)] == []
    remote.write(KEY, b"content")
    remote.write_metadata(KEY, known_of())
    remote.write_metadata(("", KEY[1]), known_of(""))
    again = Remote(url)
    assert again.read(KEY) == b"content"
    assert again.holds(KEY)
    assert present(again.read_metadata(KEY)).owner == "ann"
    assert [*again.keys(KEY[0])] == [KEY]
    assert {*again.keys(None)} == {KEY, ("", KEY[1])}
    remote.remove(KEY)
    remote.remove(KEY)
    assert again.read(KEY) is None
    assert [*again.keys(None)] == [("", KEY[1])]


def test_no_draft_is_left(remote, tmp_path, url):
    remote.write(KEY, b"content")
    if url.startswith(("file", "local")):
        assert [path.name for path in (tmp_path / "far").rglob("*.*")] == [f"{KEY[1]}.safetensors"]


def store_at(folder, url, disk=2**40):
    return AdapterStore(folder, StorageBudgets(0, 0, disk, disk), Remote(url))


def test_what_the_disk_lets_go_comes_back_by_itself(tmp_path, url):
    adapters = [adapter_of(number) for number in range(3)]
    size = len(adapters[0].to_bytes())
    store = store_at(tmp_path / "near", url, 2 * size)
    for adapter in adapters:
        store.put(adapter, "ann")
    assert len([*(tmp_path / "near").rglob("*.safetensors")]) == 2
    assert len(store.describe("ann")) == 3
    for adapter in adapters:
        assert store.get(adapter.id, "ann").to_bytes() == adapter.to_bytes()
    assert len([*(tmp_path / "near").rglob("*.safetensors")]) == 2
    assert store.gauges()["adapters_remote_hits"] == 3
    assert store.gauges()["adapters_disk_bytes"] == 2 * size


def test_an_empty_machine_knows_the_adapters_of_another(tmp_path, url):
    first, adapter = store_at(tmp_path / "one", url), adapter_of(1)
    first.put(adapter, "ann")
    first.change(adapter.id, "ann", lambda known, _: replace(known, name="support", version=1))
    second = store_at(tmp_path / "two", url)
    assert second.get("support", "ann").id == adapter.id
    assert [known.name for known in store_at(tmp_path / "three", url).describe(None)] == ["support"]
    second.remove(adapter.id, "ann")
    assert store_at(tmp_path / "four", url).describe("ann") == []


def test_what_is_given_is_the_receivers_on_an_empty_machine(tmp_path, url):
    first, adapter = store_at(tmp_path / "one", url), adapter_of(1)
    first.put(adapter, "ann")
    first.change(adapter.id, "ann", lambda known, _: replace(known, name="support", version=1))
    first.give(adapter.id, "ann", "bob")
    second = store_at(tmp_path / "two", url)
    assert second.get("support", "bob").to_bytes() == adapter.to_bytes()
    assert second.describe("ann") == []


def test_a_file_that_was_changed_far_away_is_refused(tmp_path, url):
    store_at(tmp_path / "one", url).put(adapter_of(1))
    key = ("", adapter_of(1).id)
    Remote(url).write(key, adapter_of(2).to_bytes())
    with pytest.raises(WeightsError, match=f"adapter {key[1]} is damaged: its file has the digest"):
        store_at(tmp_path / "two", url).get(key[1])


def test_while_it_is_away_the_disk_serves_and_nothing_is_lost(tmp_path, caplog):
    far = tmp_path / "far"
    far.write_text("in the way of a folder")
    store = store_at(tmp_path / "near", f"file://{tmp_path}/far", len(adapter_of(1).to_bytes()))
    store.put(adapter_of(1))
    assert "is on this disk only" in caplog.text
    assert store.get(adapter_of(1).id).id == adapter_of(1).id
    with pytest.raises(StoreError, match="ADAPTER_STORE file://.* Check its address"):
        store.put(adapter_of(2))
    assert store.get(adapter_of(1).id).id == adapter_of(1).id
    far.unlink()
    store.put(adapter_of(2))
    assert store.get(adapter_of(1).id).id == adapter_of(1).id


@pytest.fixture(params=["file", "s3"])
def earlier(request, tmp_path):
    """A URL whose store an earlier release has written: by fsspec, with s3fs for S3."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    far = f"file://{tmp_path}/far"
    url = far if request.param == "file" else f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    files, root = fsspec.core.url_to_fs(url)
    for owner, place in (("ann", place_of("ann")), ("", "nobody")):
        known = known_of(owner, name="support", version=3)
        files.makedirs(f"{root}/{place}", exist_ok=True)
        files.pipe_file(f"{root}/{place}/{known.id}.safetensors", adapter_of(1).to_bytes())
        text = json.dumps(known.to_json(), indent=1).encode()
        files.pipe_file(f"{root}/{place}/{known.id}.json", text)
    return url


def test_a_store_of_an_earlier_release_is_read_and_its_names_go_on(tmp_path, earlier):
    store, other = store_at(tmp_path / "near", earlier), adapter_of(2)
    for owner in ("ann", ""):
        assert store.get("support@v3", owner).to_bytes() == adapter_of(1).to_bytes()
    store.put(other, "ann")
    named = store.change(
        other.id, "ann", lambda known, version: apply_changes(known, {"name": "support"}, version)
    )
    assert named.version == 4


def test_two_processes_with_folders_of_their_own_give_each_version_once(tmp_path, s3):
    folders = [tmp_path / "one", tmp_path / "two"]
    at_once(partial(name_all, folders, f"{s3}/{tmp_path.name}", 20))
    assert given_versions(folders) == [*range(1, 41)]


def test_a_version_is_given_once_though_its_adapter_is_removed(tmp_path, remote):
    assert [remote.next_version("", "support") for _ in range(3)] == [1, 2, 3]
    assert remote.next_version("", "support", 7) == 8
    assert remote.next_version(KEY[0], "support") == 1
    assert [*remote.keys(None)] == []


def test_a_decision_made_at_one_machine_is_found_at_another(tmp_path, url):
    one, two = store_at(tmp_path / "one", url), store_at(tmp_path / "two", url)
    adapter = adapter_of(1)
    one.put(adapter, "ann")
    receipt = {"format": "x"}
    one.decisions.keep("ann", Decision("a" * 32, "b" * 16, adapter.id, {}, receipt, ("1",)))
    assert two.decisions.find("bob", "a" * 32) is two.decisions.find("ann", "c" * 32) is None
    assert present(two.decisions.find("ann", "a" * 32)).adapter == adapter.id
    assert present(two.decisions.of_adapter("ann", adapter.id)).receipt == receipt
    assert present(two.decisions.largest_part("ann", "b" * 16, ("1", "2"))).adapter == adapter.id
    two.remove(adapter.id, "ann")
    assert store_at(tmp_path / "three", url).decisions.find("ann", "a" * 32) is None


def test_a_decision_from_before_the_store_is_still_found(tmp_path, url):
    made = Decision("a" * 32, "b" * 16, None, {})
    AdapterStore(tmp_path / "one").decisions.keep("ann", made)
    again = store_at(tmp_path / "one", url).decisions
    assert present(again.find("ann", "a" * 32)) == made
    again.drop_key("ann")
    assert AdapterStore(tmp_path / "one").decisions.find("ann", "a" * 32) is None


def test_a_url_that_nobody_reads_is_refused_by_its_name():
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(ConfigError, match="ADAPTER_STORE is 'nothing://x': .*install the package"):
        Remote("nothing://x")


@pytest.mark.parametrize("missing", ["obstore", "fsspec"])
def test_a_package_that_is_not_installed_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    url = {"obstore": "s3://a/b", "fsspec": "sftp://a/b"}[missing]
    named = {"obstore": "pip install .cog-adapt.remote..", "fsspec": "a package of fsspec"}[missing]
    with pytest.raises(ConfigError, match=f"ADAPTER_STORE is '{url}': .*{named}"):
        Remote(url)


def test_a_profile_needs_boto3_or_keys(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match="AWS_PROFILE is set, .*`pip install boto3`, or set AWS_"):
        Remote("s3://a/b")


def test_accounts_of_other_clouds_are_read_from_the_environment(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ConfigError, match="ADAPTER_STORE is 'az://a/b': .*[Aa]ccount"):
        Remote("az://a/b")
    Remote("abfs://a@team.dfs.core.windows.net/b")
    Remote("gs://a/b")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "team")
    Remote("az://a/b")
