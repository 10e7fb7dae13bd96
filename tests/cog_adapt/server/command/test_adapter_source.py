"""How adapters are shown."""

from cog_adapt.server.command.adapter_source import as_json, as_lines

NAMED = {"id": "a" * 16, "name": "support", "version": 3, "owner": "ada", "examples": 60, "hits": 2}
NAMED |= {"recipe": {"method": "lora"}, "created_at": "2026-11-22T10:00:00.123456+00:00"}


def test_each_adapter_is_a_line():
    bare = {"id": "b" * 16, "name": None, "owner": "", "recipe": None, "examples": None}
    head, named, nobodys = as_lines([NAMED, bare])
    assert head.split() == ["ID", "NAME", "OWNER", "METHOD", "EXAMPLES", "HITS", "CREATED"]
    assert named.split() == [
        "a" * 16,
        "support@v3",
        "ada",
        "lora",
        "60",
        "2",
        "2026-11-22T10:00:00",
    ]
    assert nobodys.split() == ["b" * 16, *"-" * 6]
    assert as_json({"a": "\u00e9"}) == '{\n  "a": "\u00e9"\n}'
