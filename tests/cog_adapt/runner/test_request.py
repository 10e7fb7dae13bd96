"""What a request carries is read once; files are those that the server has fetched."""

import pytest
from torch import nn

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request, fetched, read_request_examples
from cog_adapt.runner.requests.find_adapter import find_adapter
from cog_adapt.runner.storage import adapter_files
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.lora_files import LoRAFiles
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.models import Letters

ROWS = [{"input": "a", "target": "x"}, {"input": "b", "target": "y"}]
EXAMPLES = [Example("a", "x"), Example("b", "y")]
PEFT = PeftFormat(nn.Identity(), "0" * 16, "head")
FILES = AdapterFiles(lambda adapter: adapter, PEFT, LoRAFiles(PEFT))
CSV = "input,target\na,x\nb,y\n"


def examples_of(**values):
    return read_request_examples(Request(**values), Letters()).examples


@pytest.fixture
def store(tmp_path):
    return AdapterStore(tmp_path / "adapters")


@pytest.fixture
def adapter():
    return Adapter({}, ("x", "y"), "head", "0" * 16)


def found(store, owner="", **values):
    return find_adapter(Request(**values), store, Asker(owner), read=FILES.read)


def test_rows_that_lack_a_column_have_the_requests_own():
    rows = [{"input": "a"}, {"input": "b", "target": "y", "mood": "odd"}]
    found = read_request_examples(
        Request(examples=rows, row_defaults={"target": "x", "place": "z"}), Letters()
    )
    assert found.examples == EXAMPLES
    assert found.warnings == ("columns not used: 'mood'",)


def test_examples_come_as_text_as_objects_or_in_a_file(tmp_path):
    file = tmp_path / "file.bin"
    file.write_text(CSV)
    assert examples_of(examples=CSV) == EXAMPLES
    assert examples_of(examples=ROWS) == EXAMPLES
    assert examples_of(examples_file=file) == EXAMPLES
    assert examples_of() == examples_of(examples=[]) == []


def test_an_adapter_is_named_by_id_or_sent_as_a_file(tmp_path, store, adapter):
    store.put(adapter)
    file = tmp_path / "file.bin"
    file.write_bytes(adapter.to_bytes())
    assert found(store, adapter=adapter.id).id == adapter.id
    assert found(store, weights=file).id == adapter.id
    assert found(store) is None


def test_an_adapters_file_is_read_up_to_a_limit(tmp_path, store, adapter, monkeypatch):
    file = tmp_path / "file.bin"
    file.write_bytes(adapter.to_bytes())
    monkeypatch.setattr(adapter_files, "MOST_ADAPTER_BYTES", file.stat().st_size)
    assert found(store, weights=file).id == adapter.id
    monkeypatch.setattr(adapter_files, "MOST_ADAPTER_BYTES", file.stat().st_size - 1)
    with pytest.raises(InputError, match="`weights`: the file has more than .* bytes. Send a"):
        found(store, weights=file)


def test_an_id_is_looked_up_among_its_owners_adapters(store, adapter):
    store.put(adapter, "ann")
    assert found(store, "ann", adapter=adapter.id).id == adapter.id
    with pytest.raises(InputError, match="is not known here"):
        found(store, "bob", adapter=adapter.id)


@pytest.mark.parametrize("value", ["/etc/passwd", "file:///etc/passwd", "../secret", "a.csv"])
def test_a_path_that_the_server_did_not_fetch_is_refused(store, value):
    """Cog hands a local path over as the text that the caller sent."""
    for refused in (
        lambda: examples_of(examples_file=value),
        lambda: found(store, weights=value),
        lambda: fetched(value),
    ):
        with pytest.raises(InputError, match=f"{value}.* is no file that this server has fetched"):
            refused()


def test_a_very_long_value_is_shown_in_short():
    with pytest.raises(InputError) as caught:
        fetched("a" * 10_000)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("url", ["data:text/plain,x", "http://host/x", "https://host/x"])
def test_the_old_place_of_a_url_names_the_new_one(store, url):
    with pytest.raises(InputError, match=f"URL '{url}', but takes rows. .* `examples_file`"):
        examples_of(examples=url)
    with pytest.raises(InputError, match=f"URL '{url}', but takes an id or a name. .* `weights`"):
        found(store, adapter=url)


def test_one_thing_is_not_sent_twice(tmp_path, store):
    with pytest.raises(InputError, match="`examples` and `examples_file` are both set"):
        examples_of(examples=CSV, examples_file=tmp_path)
    with pytest.raises(InputError, match="`adapter` and `weights` are both set"):
        found(store, adapter="0" * 16, weights=tmp_path)


def test_unusable_examples_and_files_say_where_they_came_from(tmp_path, store):
    file = tmp_path / "file.bin"
    file.write_text("input,target\n,x\n")
    with pytest.raises(InputError, match="^`examples`: examples refused"):
        examples_of(examples=file.read_text())
    with pytest.raises(InputError, match=r"^`examples_file`: [^/]*\n  row 2: the input is empty"):
        examples_of(examples_file=file)
    with pytest.raises(InputError, match="^`weights`: the file is no safetensors file"):
        found(store, weights=file)
