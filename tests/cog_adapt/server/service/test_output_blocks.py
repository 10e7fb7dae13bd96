"""Many items of an output, kept as few."""

import msgspec
import pytest

from cog_adapt.server.service.output_blocks import BLOCK, add_item


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
def test_they_encode_as_they_are_and_a_thousand_are_one(count):
    outputs: list[msgspec.Raw] = []
    for number in range(1, count + 1):
        add_item(outputs, msgspec.Raw(b'{"n":%d}' % number), number)
    assert msgspec.json.decode(msgspec.json.encode(outputs)) == [
        {"n": number} for number in range(1, count + 1)
    ]
    assert len(outputs) == count // BLOCK + count % BLOCK
