"""Nobody reaches another owner's predictions, files and trainings, whatever is sent."""

import threading
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from cog_adapt.server.files.signed_urls import SignedUrls
from tests.cog_adapt.replicate.site import ADA, BOB, EVE, signer_of


def upload(server, headers=ADA, content=b"content", **fields):
    files = {"content": ("notes.txt", content, "text/plain")}
    return httpx.post(
        f"{server.url}/v1/files", files=files, data=fields, headers=headers, timeout=60
    )


def path_of(url):
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


@pytest.fixture(scope="module")
def file(server):
    return upload(server).json()


@pytest.fixture(scope="module")
def prediction(server):
    sent = ADA | {"Prefer": "wait"}
    return server.post("/v1/predictions", {"input": {"text": "x"}}, headers=sent).json()


def test_another_owners_predictions_are_unknown(server, prediction):
    one = f"/v1/predictions/{prediction['id']}"
    assert server.get(one, headers=ADA).status_code == 200
    unknown = server.get("/v1/predictions/pred_0", headers=BOB).json()["detail"]
    for method, path in (("GET", one), ("POST", f"{one}/cancel")):
        answer = server.request(method, path, headers=BOB)
        assert answer.status_code == 404
        assert answer.json()["detail"].replace(prediction["id"], "pred_0") == unknown
    listed = server.get("/v1/predictions", headers=BOB).json()["results"]
    assert prediction["id"] not in [each["id"] for each in listed]


def test_a_cursor_of_another_owner_leads_to_ones_own_records(server):
    while (following := server.get("/v1/predictions", headers=ADA).json()["next"]) is None:
        server.post("/v1/predictions", {"input": {"text": "x"}}, headers=ADA)
    assert following.startswith(f"{server.url}/v1/predictions?")
    ids = {each["id"] for each in server.get(path_of(following), headers=ADA).json()["results"]}
    taken = {each["id"] for each in server.get(path_of(following), headers=BOB).json()["results"]}
    assert ids
    assert not ids & taken


def test_another_owners_file_is_unknown_also_as_an_input(server, file):
    one = path_of(file["urls"]["get"])
    for method in ("GET", "DELETE"):
        assert server.request(method, one, headers=BOB).status_code == 404
    listed = server.get("/v1/files", headers=BOB).json()["results"]
    assert file["id"] not in [each["id"] for each in listed]
    for headers, status in ((ADA, "succeeded"), (BOB, "failed"), (EVE, "failed")):
        body = {"input": {"file": file["urls"]["get"], "text": "z"}}
        made = server.post("/v1/predictions", body, headers=headers | {"Prefer": "wait"}).json()
        assert made["status"] == status, made
        if status == "failed":
            assert f"there is no file {file['id']} of yours" in made["error"]


def test_a_file_is_read_under_each_name_of_the_server_and_by_cogs_route(server, file):
    for base in ("https://elsewhere.example", f"http://localhost:{server.port}"):
        sent = {"input": {"file": f"{base}/v1/files/{file['id']}", "text": "z"}}
        made = server.post("/predictions", sent, headers=ADA).json()
        assert made["output"] == [".txt=content ", "z "]


@pytest.mark.parametrize("of", ["prediction", "file"])
def test_a_signature_opens_one_thing_of_one_owner_for_an_hour(server, prediction, file, of):
    signed = prediction["urls"]["stream"] if of == "prediction" else file["urls"]["download"]
    path, query = signed.split("?")
    good = {name: value[0] for name, value in parse_qs(query).items()}
    assert int(good["expiry"]) <= time.time() + 3600
    assert httpx.get(signed).status_code == 200
    forged = [
        good | {"owner": "bob"},
        good | {"expiry": str(int(good["expiry"]) + 1)},
        good | {"signature": "AAAA"},
        good | {"signature": "\u2028é"},
        {name: good[name] for name in ("owner", "expiry")},
        {},
    ]
    for each in forged:
        answer = httpx.get(f"{path}?{urlencode(each)}")
        assert answer.status_code == 403
        assert "signature" in answer.json()["detail"]
    other = path.replace(prediction["id"], "pred_0").replace(file["id"], "file-" + "0" * 32)
    assert httpx.get(f"{other}?{query}").status_code == 403


def test_an_expired_signature_opens_nothing(server, prediction):
    signer = signer_of(server)
    query = signer.query("prediction", prediction["id"], "ada", seconds=-1)
    path = prediction["urls"]["stream"].split("?")[0]
    refused = httpx.get(f"{path}?{query}")
    assert refused.status_code == 403
    assert "has expired" in refused.json()["detail"]
    assert httpx.get(f"{path}?{signer.query('prediction', prediction['id'], 'ada')}").is_success
    swapped = signer.query("file", prediction["id"], "ada")
    assert httpx.get(f"{path}?{swapped}").status_code == 403


def test_servers_that_make_the_secret_at_once_have_one(tmp_path):
    signers = [SignedUrls(tmp_path) for _ in range(8)]
    together = threading.Barrier(len(signers))
    queries = []

    def sign(signer):
        together.wait(30)
        queries.append(signer.query("file", "x", "ada", 100))

    threads = [threading.Thread(target=sign, args=(each,)) for each in signers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    owners = {
        SignedUrls(tmp_path).owner("file", "x", {k: v[0] for k, v in parse_qs(query).items()})
        for query in queries
    }
    assert owners == {"ada"}
    assert len(queries) == 8
    assert (tmp_path / "url-secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["url-secret"]


@pytest.mark.parametrize(
    ("content_type", "body", "status", "words"),
    [
        ("application/json", b"{}", 422, "multipart/form-data"),
        ("multipart/form-data", b"x", 422, "boundary"),
        ("multipart/form-data; boundary=b", b"nothing", 422, "multipart"),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\nx\r\n--b--\r\n", 422, "name"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\nx\r\n--b--\r\n',
            422,
            "file name",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
            + b"x" * 2**17
            + b"\r\n--b--",
            422,
            "64KB",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' * 20 + b"--b--",
            422,
            "8",
        ),
    ],
)
def test_bodies_that_hold_no_file_are_refused(server, content_type, body, status, words):
    headers = ADA | {"Content-Type": content_type}
    answer = httpx.post(f"{server.url}/v1/files", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("metadata", ["{", "[1]", '"x"', '{"a": ' * 200])
def test_metadata_that_is_no_object_is_refused(server, metadata):
    answer = upload(server, metadata=metadata)
    assert answer.status_code == 422
    assert "metadata" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b.txt", "x" * 300 + ".txt", "\u202e.txt"])
def test_a_files_name_leads_nowhere(server, name):
    files = {"content": (name, b"content", "text/plain")}
    made = httpx.post(f"{server.url}/v1/files", files=files, headers=ADA).json()
    body = {"input": {"file": made["urls"]["get"], "text": "z"}}
    seen = server.post("/v1/predictions", body, headers=ADA | {"Prefer": "wait"}).json()
    assert seen["status"] == "succeeded", seen
    assert "=content " in seen["output"][0]


def test_a_forged_host_stays_in_its_senders_answer(server):
    own = tuple(each.url for each in server.members)
    for host in ("evil.example/x?", "a b", '"><script>'):
        sent = ADA | {"Host": host}
        answer = server.post("/v1/predictions", {"input": {"text": "x"}}, headers=sent)
        if answer.status_code == 201:
            assert answer.json()["urls"]["get"].startswith(own)


def test_an_owners_data_are_removed_with_the_files(server):
    made = upload(server, BOB).json()
    assert server.request("DELETE", "/owners/bob/data", headers=BOB).status_code == 200
    assert server.get(path_of(made["urls"]["get"]), headers=BOB).status_code == 404
