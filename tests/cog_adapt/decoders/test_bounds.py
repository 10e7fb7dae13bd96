"""What a decoder would make far more of than was sent is refused before it is decoded."""

import base64
import json

import pytest
import torch
from safetensors.torch import save

from cog_adapt.runner.data.examples import parse_examples
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.known import receipt
from cog_adapt.runner.modules.adapters import FORMAT, adapter_from_bytes
from cog_adapt.runner.storage.peft_config import read_scales
from cog_adapt.server.errors import InputError as ServerInputError
from cog_adapt.server.records.adapter_pages import AdapterQuery
from tests.cog_adapt.decoders.peak import risen

NESTED = "[" * 100_000 + "]" * 100_000
HALF = "\\ud800"


def safetensors_of(header):
    return len(header).to_bytes(8, "little") + header


def test_a_header_of_many_tensors_without_bytes_is_refused_before_they_are_made():
    entries = {
        str(n): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(60_000)
    }
    content = safetensors_of(json.dumps(entries).encode())
    del entries
    with risen() as rise, pytest.raises(WeightsError, match="more than 20,000 tensors"):
        adapter_from_bytes(content, "the file")
    assert rise.mb < 8


def test_a_header_that_is_too_long_is_refused_before_it_is_parsed():
    content = safetensors_of(b'{"__metadata__":{"x":"' + b"x" * 2**24 + b'"}}') + b"0"
    with pytest.raises(WeightsError, match="its header has 16,777,241 bytes"):
        adapter_from_bytes(content, "the file")


@pytest.mark.parametrize("header", [NESTED[49_990:-49_990], "[" * 2_000])
def test_an_adapters_own_header_that_nests_deep_is_no_adapter(header):
    content = save({"a": torch.ones(1)}, {FORMAT: header})
    with pytest.raises(WeightsError, match="the file holds no adapter"):
        adapter_from_bytes(content, "the file")


def test_a_config_of_ten_thousand_patterns_is_read_and_of_one_more_is_refused():
    patterns = {f"layer{number}": 2 for number in range(10_000)}
    assert read_scales({"alpha_pattern": patterns}, {"layer7": 4}) == {"layer7": 0.5}
    with pytest.raises(InputError, match="no object of at most 10,000 names"):
        read_scales({"alpha_pattern": patterns | {"more": 2}}, {"layer7": 4})


@pytest.mark.parametrize("text", [NESTED, f'{{"format": "{receipt.FORMAT}", "x": {NESTED}}}'])
def test_a_receipt_that_nests_deep_is_no_receipt(text):
    with pytest.raises(InputError, match="this is no receipt"):
        receipt.read_receipt(text)


def test_a_receipt_of_too_many_bytes_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(receipt, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="the receipt has 11 bytes; the limit is 10"):
        receipt.read_receipt("[" * 11)


@pytest.mark.parametrize(
    "source",
    [
        f'[{{"input": "a{HALF}", "target": "x"}}]',
        f'{{"input": "a", "target": "x{HALF}"}}\n{{"input": "b", "target": "y"}}',
        f'{{"x{HALF}": ["a"], "y": ["b"]}}',
        [{"input": chr(0xD800), "target": "x"}],
        f"input,target\n{chr(0xDFFF)},x",
    ],
)
def test_half_a_surrogate_pair_in_examples_is_refused(source):
    with pytest.raises(InputError, match="half a surrogate pair"):
        parse_examples(source)


def test_a_whole_surrogate_pair_is_a_character():
    (found,) = parse_examples('[{"input": "\\ud83d\\ude00", "target": "x"}]').examples
    assert found.input == "\U0001f600"


@pytest.mark.parametrize("levels", [700, 30_000])
def test_a_cursor_that_nests_deep_is_none_of_this_servers(levels):
    place = b'["2026-01-02T03:04:05Z","a","b",' + b"[" * levels
    text = base64.urlsafe_b64encode(place).decode().rstrip("=")
    with pytest.raises(ServerInputError, match="is not from this server"):
        AdapterQuery.of(10, text)


def test_rows_that_nest_without_end_are_refused():
    row: dict[str, object] = {"target": "x"}
    row["input"] = row
    with pytest.raises(InputError, match="nested too deep, or in itself"):
        parse_examples([row])
