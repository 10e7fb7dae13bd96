"""Adapters as the API shows them, over a predictor that keeps some."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from cog_adapt.server.protocol import Ready
from tests.cog_adapt.server.api.keeping import ADA, BOB, ROOT, ids, keep, put, read
from tests.cog_adapt.server.kept_adapters import KeptAdapters
from tests.cog_adapt.waiting import until

HOUSE = {"error", "status"}


def test_what_was_there_before_the_server_is_listed_newest_first(play):
    async def scene(site):
        kept = KeptAdapters()
        names = [kept.put("", content)["id"] for content in (b"a", b"b", b"c")]
        keep(site, kept)

        async def are_listed():
            return await ids(site) == names[::-1]

        await until(are_listed)
        page = read(await site.ask("GET", "/adapters", query="limit=2"))
        assert [each["id"] for each in page["results"]] == [names[2], names[1]]
        rest = read(await site.ask("GET", "/adapters", query=f"cursor={page['next']}"))
        assert ([each["id"] for each in rest["results"]], rest["next"]) == ([names[0]], None)

    play(scene)


def test_one_is_uploaded_named_used_by_its_name_and_removed(play):
    async def scene(site):
        kept = keep(site)
        made = await site.ask("POST", "/adapters", b"content", key=ADA)
        found = read(made)
        assert (made.status, made.headers["location"]) == (201, f"/adapters/{found['id']}")
        assert (found["owner"], found["bytes"]) == ("ada", 7)
        path = made.headers["location"]
        named = await site.ask("PATCH", path, {"name": "support", "notes": "n"}, key=ADA)
        assert (named.status, read(named)["version"]) == (200, 1)
        child = (await put(kept, "ada", b"child", parent=found["id"]))["id"]
        removed = await site.ask("DELETE", "/adapters/support", key=ADA)
        assert (removed.status, read(removed)) == (200, {"removed": True, "children": [child]})
        assert (await site.ask("GET", path, key=ADA)).status == 404
        assert await ids(site, key=ADA) == [child]

    play(scene)


def test_an_owner_of_old_files_is_named_to_each_worker_once(play):
    async def scene(site):
        kept = KeptAdapters()
        name = kept.put("not yet ada", b"old")["id"]
        keep(site, kept)
        assert (await site.ask("GET", f"/adapters/{name}", key=BOB)).status == 404
        assert (await site.ask("GET", f"/adapters/{name}", key=ADA)).status == 200
        assert await ids(site, key=ADA) == await ids(site, key=ROOT) == [name]
        assert sorted(kept.described, key=str) == [None, "ada", "bob", "root"]
        site.harness.crash()
        await site.harness.set_up_again(Ready(has_adapters=True))
        assert await ids(site, key=ADA) == [name]
        assert kept.described[-1] == "ada"

    play(scene)


@pytest.mark.parametrize(
    ("query", "media_type", "ending", "content"),
    [
        ("", "application/octet-stream", "safetensors", b"safetensors:"),
        ("format=peft", "application/zip", "zip", b"peft:"),
        ("format=receipt", "application/json", "receipt.json", b"receipt:"),
    ],
)
def test_one_is_downloaded_whole_and_leaves_no_file(play, query, media_type, ending, content):
    async def scene(site):
        kept = keep(site)
        name = (await put(kept, "", b"x" * 10**6))["id"]
        answer = await site.ask("GET", f"/adapters/{name}/download", query=query)
        assert (answer.status, answer.headers["content-type"]) == (200, media_type)
        assert answer.body == content + b"x" * 10**6
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}.{ending}"'
        assert not list(Path(tempfile.gettempdir()).glob(f"{site.lead.prefix}*"))

    play(scene)


def test_an_upload_leaves_no_file_whatever_becomes_of_it(play):
    async def scene(site):
        keep(site)
        for content, status, says in (
            (b"good", 201, None),
            (b"bad", 422, "the file is no adapter"),
            (b"disk full", 507, "no space is left; remove some adapters"),
            (b"fault", 500, "the predictor's adapters failed; the server's log says how"),
            (b"x" * 101, 413, "the file has more than 100 bytes (MAX_FILE_BYTES)."),
        ):
            answer = await site.ask("POST", "/adapters", content)
            assert answer.status == status
            if status == 422:
                assert says in read(answer)["detail"][0]["msg"]
            elif says is not None:
                assert (read(answer).keys(), answer.error) == (HOUSE, says)
            assert not list(Path(tempfile.gettempdir()).glob(f"{site.lead.prefix}*")), content

    play(scene, max_file_bytes=100)


EACH_ROUTE = [
    ("GET", "", None),
    ("HEAD", "", None),
    ("GET", "/download", None),
    ("PATCH", "", {"name": "mine"}),
    ("DELETE", "", None),
]


@pytest.mark.parametrize(("method", "end", "body"), EACH_ROUTE)
def test_anothers_is_not_found_in_the_words_of_an_unknown_one(play, method, end, body):
    async def scene(site):
        kept = keep(site)
        name = (await put(kept, "ada", b"x", name="support", version=1))["id"]
        unknown = "0" * 16
        for reference in (name, "support", "support@v1"):
            answers = [
                await site.ask(method, f"/adapters/{each}{end}", body, key=BOB)
                for each in (reference, unknown)
            ]
            assert [each.status for each in answers] == [404, 404]
            assert answers[0].error.replace(reference, unknown) == answers[1].error
        assert kept.kept["ada", name][0]["name"] == "support"

    play(scene)


def test_a_shared_one_is_read_by_whom_it_is_shared_with_and_changed_by_its_owner(play):
    async def scene(site):
        kept = keep(site)
        name = (await put(kept, "ada", b"x", hits=7, parent="p"))["id"]
        path = f"/adapters/{name}"
        await site.ask("PATCH", path, {"shared": ["bob"]}, key=ADA)
        shown = read(await site.ask("GET", path, key=BOB))
        assert (shown["owner"], shown["shared"], shown["hits"]) == ("ada", [], None)
        assert (shown["parent"], shown["examples_digest"]) == (None, None)
        (listed,) = read(await site.ask("GET", "/adapters", query="shared=true", key=BOB))[
            "results"
        ]
        assert listed == shown
        assert (await site.ask("GET", f"{path}/download", key=BOB)).body == b"safetensors:x"
        for method, end, query, body in (
            ("PATCH", "", "", {"notes": "bob was here"}),
            ("DELETE", "", "", None),
            ("GET", "/download", "format=receipt", None),
        ):
            refused = await site.ask(method, f"{path}{end}", body, key=BOB, query=query)
            assert (refused.status, "only its owner may change it" in refused.error) == (403, True)
        await site.ask("PATCH", path, {"shared": []}, key=ADA)
        assert (await site.ask("GET", path, key=BOB)).status == 404

    play(scene)


def test_what_a_run_has_made_is_found_as_soon_as_it_has_ended(play):
    async def scene(site):
        kept = keep(site)
        for number in range(20):
            name = (await put(kept, "", b"%d" % number))["id"]
            assert (await site.ask("GET", f"/adapters/{name}")).status == 200

    play(scene)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=support", ["b", "a"]),
        ("method=head", ["b"]),
        ("shared=true", []),
        ("owner=bob", []),
        ("label=bug%20report", ["c", "b"]),
    ],
)
def test_a_page_may_be_of_some(play, query, found):
    labels = ["bug report", "praise"]
    of_each: dict[str, dict[str, Any]] = {
        "a": {"name": "support", "version": 1},
        "b": {"name": "support", "version": 2, "recipe": {"method": "head"}, "labels": labels},
        "c": {"labels": labels[:1]},
    }

    async def scene(site):
        kept = keep(site)
        made = [(await put(kept, "ada", name.encode(), **of_each[name]))["id"] for name in of_each]
        names = dict(zip(made, of_each, strict=True))
        assert [names[each] for each in await ids(site, query, key=ADA)] == found

    play(scene)


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("", "limit=0", 422, "limit is '0'; allowed: 1 to 1000."),
        ("", "shared=maybe", 422, "shared is 'maybe'; allowed: true, false."),
        ("", "cursor=x", 404, "there is no such page: cursor 'x' is not from this server"),
        ("", "name=%00", 404, "there is no such page: a text of the query holds"),
        (
            "/a/download",
            "format=onnx",
            422,
            "format is 'onnx'; allowed: safetensors, peft, diffusers, kohya, receipt.",
        ),
        ("/%ff", "", 400, "Invalid URL: Invalid UTF-8 in `reference`"),
        ("/%00", "", 404, "there is no adapter"),
        ("/" + "x" * 5000, "", 404, "there is no adapter"),
    ],
)
def test_wrong_values_are_refused_with_words(play, path, query, status, says):
    async def scene(site):
        keep(site)
        answer = await site.ask("GET", f"/adapters{path}", query=query)
        assert answer.status == status
        text = read(answer)["detail"][0]["msg"] if status == 422 else answer.error
        assert text.startswith(says)
        assert len(text) < 200

    play(scene)


@pytest.mark.parametrize(
    ("body", "headers", "status", "says"),
    [
        (b"{", {}, 400, "Failed to parse the request body as JSON"),
        (b"[]", {}, 422, "Failed to deserialize the JSON body into the target type"),
        (b"{}", {"content_type": "text/plain"}, 415, "Expected request with"),
        (b'{"colour": "red"}', {}, 422, "'colour' cannot be changed"),
        (b'{"notes": "%s"}' % (b"x" * 2**16), {}, 413, "the changes have more than 65536 bytes."),
    ],
)
def test_wrong_changes_are_refused_with_words(play, body, headers, status, says):
    async def scene(site):
        name = (await put(keep(site), "", b"x"))["id"]
        answer = await site.ask("PATCH", f"/adapters/{name}", body, **headers)
        assert answer.status == status
        assert says in (read(answer)["detail"][0]["msg"] if status == 422 else answer.error)

    play(scene)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/adapters", None),
        ("GET", "/adapters/x", None),
        ("GET", "/adapters/x/download", None),
        ("PATCH", "/adapters/x", {}),
        ("DELETE", "/adapters/x", None),
        ("POST", "/adapters", b"x"),
    ],
)
def test_a_predictor_without_adapters_is_said_to_keep_none(play, method, path, body):
    async def scene(site):
        site.lead.ready = Ready()
        answer = await site.ask(method, path, body)
        assert (answer.status, "keeps no adapters" in answer.error) == (404, True)

    play(scene)


def test_while_the_worker_is_down_the_index_answers_and_the_rest_waits(play):
    async def scene(site):
        name = (await put(keep(site), "", b"x"))["id"]
        assert await ids(site) == [name]
        site.lead.state = "crashed"
        assert await ids(site) == [name]
        assert (await site.ask("GET", f"/adapters/{name}")).status == 200
        for method, end, body in EACH_ROUTE[2:]:
            answer = await site.ask(method, f"/adapters/{name}{end}", body)
            assert (answer.status, "starts again after a crash" in answer.error) == (503, True)
        assert (await site.ask("POST", "/adapters", b"x")).status == 503

    play(scene)


def test_a_worker_that_dies_leaves_nobody_waiting(play):
    async def scene(site):
        kept = keep(site)
        name = (await put(kept, "", b"x"))["id"]
        assert await ids(site) == [name]
        kept.answers.clear()
        asked = site.asking("DELETE", f"/adapters/{name}")
        await until(lambda: "remove" in kept.asked)
        site.lead.on_exit("killed")
        answer = await asked
        kept.answers.set()
        assert (answer.status, "ended before it answered" in answer.error) == (503, True)

    play(scene)


def test_uploads_at_once_are_few_for_each_owner(play):
    async def scene(site):
        kept = keep(site)
        kept.answers.clear()
        uploads = [site.asking("POST", "/adapters", b"x%d" % each, key=ADA) for each in range(2)]
        await until(lambda: kept.asked.count("take") == 2)
        third = await site.ask("POST", "/adapters", b"y", key=ADA)
        assert (third.status, third.headers["retry-after"]) == (429, "1")
        of_bob = site.asking("POST", "/adapters", b"z", key=BOB)
        kept.answers.set()
        assert [(await each).status for each in (*uploads, of_bob)] == [201] * 3
        assert (await site.ask("POST", "/adapters", b"y", key=ADA)).status == 201

    play(scene)
