"""JSON as Cog writes it, and its digest."""

from cog_adapt.server.service.encoding import digest_of, encode


def test_json_has_sorted_keys_and_no_escapes():
    assert encode({"b": "é", "a": 1}) == '{"a":1,"b":"é"}'.encode()


def test_every_level_is_sorted():
    assert encode([{"b": {"d": 1, "c": 2}, "a": None}]) == b'[{"a":null,"b":{"c":2,"d":1}}]'


def test_the_digest_is_sha_256_in_hex():
    assert digest_of(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
