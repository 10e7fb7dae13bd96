"""Records every route for every key, with and without STRICT_COG."""

import hashlib
import json
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.house.cases import KNOWN, Case, envelopes, walk
from bench.house.normal import Json, body_shape, normal, to_json
from bench.house.served import Answer, Served, served
from bench.house.tree import Tree, fill

_STUBS = {
    "COG_PREDICT_TYPE_STUB": "work.py:Predictor",
    "COG_TRAIN_TYPE_STUB": "work_train.py:train",
}
_SCOPES = ("predict", "train", "predict,train", "admin")
_SHOWN_BY_NAME = frozenset({"retry-after"})
_ALWAYS = frozenset({"date", "content-length"})  # volatile, and the transport's own
_LIMITS = {
    "RATE_LIMIT": "12/minute",
    "CORS_ORIGINS": "https://example.com",
    "MAX_BODY_BYTES": "2000",
    "MAX_STRING_LENGTH": "100",
}
Answers = dict[str, dict[str, list[str]]]
"""By case, then by what was answered: who was answered so."""


def routes(tree: Tree) -> dict[str, str]:
    """Make `routes.json`: for each case its different answers, each with its callers.

    The digit before a caller is STRICT_COG.
    """
    answers: Answers = {}
    for strict in ("0", "1"):
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), "work.py", "work_train.py")
            _without_keys(tree, Path(folder), strict, answers)
            _with_keys(tree, Path(folder), strict, answers)
            _with_limits(tree, Path(folder), strict, answers)
    return {"routes.json": to_json({name: _listed(each) for name, each in answers.items()})}


def _listed(answers: dict[str, list[str]]) -> Json:
    return {text: "; ".join(who) for text, who in answers.items()}


def _variables(folder: Path, strict: str, name: str) -> dict[str, str]:
    return {**_STUBS, "STRICT_COG": strict, "DATA_DIR": str(folder / f".data-{name}")}


def _without_keys(tree: Tree, folder: Path, strict: str, answers: Answers) -> None:
    who = f"{strict} no keys are set"
    with served(tree, folder, _variables(folder, strict, "open")) as server:
        _prepare(server)
        _ask_all(server, walk("anybody"), who, {}, answers)
        _ask_all(server, envelopes(), who, {}, answers)
        _ask_all(server, _shutdowns(), who, {}, answers)
        _note_end(server, who, answers)


def _with_keys(tree: Tree, folder: Path, strict: str, answers: Answers) -> None:
    keys = {scopes: "ca_" + secrets.token_urlsafe(32) for scopes in _SCOPES}
    file = folder / "keys"
    file.write_text("".join(_line(scopes, key) for scopes, key in keys.items()))
    callers: dict[str, dict[str, str]] = {"no key": {}, "wrong key": _bearer("ca_wrong")}
    callers |= {f"{scopes}": _bearer(key) for scopes, key in keys.items()}
    variables = _variables(folder, strict, "keys") | {"API_KEYS_FILE": str(file)}
    admin = _bearer(keys["admin"])
    with served(tree, folder, variables, headers=admin) as server:
        _prepare(server)
        server.headers = {}
        for who, headers in callers.items():
            name = who.replace(" ", "-").replace(",", "-")
            _ask_all(server, walk(name), f"{strict} {who}", headers, answers)
        by_name = {"x-api-key": keys["predict"]}
        _ask_all(server, envelopes(), f"{strict} X-API-Key", by_name, answers)
        for who, headers in callers.items():
            _ask_all(server, _shutdowns(), f"{strict} {who}", headers, answers)
        _note_end(server, f"{strict} admin", answers)


def _with_limits(tree: Tree, folder: Path, strict: str, answers: Answers) -> None:
    variables = _variables(folder, strict, "limits") | _LIMITS
    long, large = {"input": {"text": "x" * 101}}, {"input": {"text": "x" * 3000}}
    origin = {"origin": "https://example.com"}
    asked = {**origin, "access-control-request-method": "POST"}
    cases = [
        Case("limits: preflight", "OPTIONS", "/predictions", None, asked),
        Case("limits: another origin", "GET", "/", None, {"origin": "https://example.org"}),
        Case("limits: origin", "GET", "/", None, origin),
        Case("limits: a long string", "POST", "/predictions", long),
        Case("limits: a large body", "POST", "/predictions", large),
        *(Case("limits: many", "GET", "/predictions/none", None, origin) for _ in range(20)),
    ]
    with served(tree, folder, variables) as server:
        _ask_all(server, cases, f"{strict} limits", {}, answers)


def _shutdowns() -> list[Case]:
    return [Case(f"{method} /shutdown", method, "/shutdown") for method in ("GET", "PUT", "POST")]


def _prepare(server: Served) -> None:
    """Make the records that the requests name."""
    server.ask("PUT", f"/predictions/{KNOWN['predictions']}", {"input": {"action": "say"}})
    server.ask("PUT", f"/trainings/{KNOWN['trainings']}", {"input": {"name": "n"}})


def _ask_all(
    server: Served, cases: Iterable[Case], who: str, headers: Mapping[str, str], answers: Answers
) -> None:
    caller = who.partition(" ")[2].replace(" ", "-").replace(",", "-")
    known = {f"new-{caller}": "{new}", "new-anybody": "{new}"}
    known |= {f"'{_name(scopes)}'": "{key}" for scopes in _SCOPES}
    for case in cases:
        answer = server.ask(case.method, case.path, case.body, {**case.headers, **headers})
        _note(answers, normal(case.name, known), summary(answer, known), who)
        if answer.status == 202:  # else the next request would find it busy
            server.until(lambda: _is_idle(server, headers))


def _is_idle(server: Served, headers: Mapping[str, str]) -> bool:
    health = server.ask("GET", "/health-check", None, headers).json["status"]
    running = server.ask("GET", "/metrics", None, headers).body.decode()
    return health == "READY" and "\ncog_predictions_running 0.0\n" in running


def _note(answers: Answers, case: str, answer: Json, who: str) -> None:
    names = answers.setdefault(case, {}).setdefault(_on_a_line(answer), [])
    if who not in names:
        names.append(who)


def _on_a_line(answer: Json) -> str:
    return json.dumps(answer, sort_keys=True, ensure_ascii=False).replace('"', "'")


def _note_end(server: Served, who: str, answers: Answers) -> None:
    _note(answers, "exit code after POST /shutdown", {"code": server.process.wait(60)}, who)


def summary(answer: Answer, known: Mapping[str, str] | None = None) -> Json:
    """Return status, headers and the body's shape."""
    headers = {
        name: "…" if name in _SHOWN_BY_NAME else normal(value, known)
        for name, value in answer.headers.items()
        if name not in _ALWAYS
    }
    body = body_shape(headers.get("content-type", ""), answer.body, known) if answer.body else None
    return {"status": answer.status, "headers": headers, "body": body}


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _line(scopes: str, key: str) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{_name(scopes)} {scopes} {digest}\n"


def _name(scopes: str) -> str:
    return f"key-{scopes.replace(',', '-')}"
