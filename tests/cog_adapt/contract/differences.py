"""Every difference between Cog's server and the mirror: what the tests expect, and docs.

    python -m tests.cog_adapt.contract.differences > docs/cog-differences.md

`expect` picks what a test wants to see by the row of its difference, so that no difference goes
unlisted.
"""

# ruff: noqa: E501 - a row is a line

import sys
from dataclasses import dataclass
from typing import Literal, TypeVar

from tests.cog_adapt.contract.servers import Server

Value = TypeVar("Value")


@dataclass(frozen=True)
class Difference:
    """One row.

    Attributes:
        id: its name in the tests.
        section: of the contract.
        cog: what Cog's server does.
        mirror: what the mirror does instead.
        strict: who is followed under STRICT_COG=1.
    """

    id: str
    section: str
    cog: str
    mirror: str
    strict: Literal["mirror", "cog"] = "mirror"


_COG: Literal["cog"] = "cog"
DIFFERENCES = (
    # What a client of Cog sees otherwise; STRICT_COG=1 gives Cog's behaviour back.
    Difference("queue", "2", "no free slot: 409 at once", "the prediction waits in a bounded queue; 429 with Retry-After when that is full", _COG),
    Difference("put-finished", "2", "PUT with the id of a finished prediction runs it again", "its record is the answer, with `Idempotent-Replayed: true`; another input is 409", _COG),
    Difference("put-running-other", "2", "PUT of a running id answers 202 whatever the input", "with another input it is 409, with an invalid one 422", _COG),
    Difference("json-errors", "2", "400, 413, 415 and the 422 of the envelope are plain text", "every error is JSON", _COG),
    Difference("playground", "2", "GET / is JSON whatever the client accepts; /playground is 404", "to browsers (`Accept` prefers text/html) / is a page, and so is /playground", _COG),
    Difference("decorator", "7", "without COG_MAX_CONCURRENCY one runs at once: `cog build` alone reads `@cog.concurrent`", "the number in `@cog.concurrent` counts wherever the variable is not set", _COG),
    Difference("json-404", "2", "404 and 405 have empty bodies", "every error is JSON", _COG),
    Difference("get-predictions", "2", "GET /predictions and /predictions/{id} are 405; the same for trainings", "they show records", _COG),
    Difference("cross-site", "2", "a page of any site may POST and PUT, /shutdown too", "403 where no API keys are set, but for the server's own pages and CORS_ORIGINS", _COG),
    Difference("local-shutdown", "2", "POST /shutdown answers whoever reaches the port", "403 where no API keys are set, but for callers on the same host (loopback, passed on by no proxy); DELETE too", _COG),
    Difference("forgetting", "2", "DELETE is 405", "DELETE /predictions/{id} forgets it, with all that is kept of it; the same for trainings, and for all of an owner", _COG),
    Difference("no-content-type", "2", "a body without Content-Type is not read", "it is read as JSON", _COG),
    Difference("prefer", "2", "`Prefer` counts only if it is exactly `respond-async`", "`respond-async` and `wait=n` are read as RFC 7240 has them", _COG),
    Difference("odd-ids", "2", "any string is an id", "1 to 128 letters, digits and . _ ~ -; others are 422", _COG),
    Difference("unknown-inputs", "2", "an input that the model does not have is dropped", "422; it names the inputs that there are, and the nearest", _COG),
    Difference("secret-numbers", "5", "a number or bool that is sent for a Secret is in the 422", "it is starred out", _COG),
    Difference("setup-failed", "3", "after a failed setup predictions are told that setup has not finished yet", "they are told that it has failed, and where to read why; 503 as well", _COG),
    Difference("bad-webhook", "4", "a webhook URL that can never be reached is ignored", "422, before anything runs", _COG),
    # Defects, mended always.
    Difference("docs-page", "2", "/docs is advertised and 404", "/docs shows the API"),
    Difference("id-in-paths", "2", "ids become paths: `../` creates folders elsewhere, which stay", "an id is never part of a path"),
    Difference("id-takes-slot", "2", "an id longer than 255 bytes or with NUL fails and its slot is lost for ever", "no slot is lost"),
    Difference("failure-logs", "2", "a failed or canceled answer has empty logs, and the traceback is nowhere", "it has its logs, with the traceback at their end"),
    Difference("early-slot", "2", "the slot is given back after the answer: a client that does one thing after the other is told 409 now and then", "the slot is free before the answer goes out"),
    Difference("post-same-id", "2", "a second POST with a running id runs too, mixes the logs and takes over cancel", "409: the id is in use"),
    Difference("whole-floats", "2", "2.0 for an int reaches run() as a float", "it arrives as the int 2"),
    Difference("nullable", "2", "null is refused even where the schema says nullable", "null is accepted there"),
    Difference("defunct", "3", "after the model process died health is UNHEALTHY, predictions get 409 for ever", "the process is started again; DEFUNCT after MAX_CRASHES in a row"),
    Difference("crash-cause", "3", "the error is `Worker crashed`", "`Worker crashed` and the exit's cause"),
    Difference("setup-logs", "3", "lines printed shortly before the end of setup are missing", "all lines are there"),
    Difference("setup-failure-logs", "3", "on failure only one line, no prints and no traceback", "prints and traceback are in setup.logs"),
    Difference("setup-log-lines", "3", "coglet's own lines are mixed in, setup's begin with `[coglet::setup] `", "setup's lines alone, as printed"),
    Difference("setup-hang", "3", "after COG_SETUP_TIMEOUT the process stays until setup() ends", "it is killed"),
    Difference("webhook-order", "4", "all sends are concurrent: completed may overtake others", "in order of the events"),
    Difference("local-files", "5", "`/etc/x` or `file://` for a Path reach run() as a str", "422: only http(s) and data URLs are files"),
    Difference("mixed-lists", "5", "a list of URLs and others is not fetched at all", "each item is fetched, or the request is 422"),
    Difference("stringio", "5", "StringIO as an output fails", "it is a file of UTF-8"),
    Difference("missing-output", "5", "a missing file or a folder as output: null, succeeded", "the prediction fails and names it"),
    Difference("upload-order", "5", "uploaded lists are in order of completion", "in order of the output"),
    Difference("nested-uploads", "5", "files inside objects are not uploaded", "they are"),
    Difference("output-files", "5", "output files stay, the documentation says they are deleted", "those that a run made in the temporary folder are removed when it has ended"),
    Difference("async-generators", "6", "async generators are collected: all chunks come at the end", "each chunk comes when it is yielded"),
    Difference("last-line", "7", "a last line without newline is prefixed to the next prediction's logs", "it belongs to its own prediction"),
    Difference("metric-none", "7", "a metric of None is a TypeError", "None deletes the metric, as documented"),
    Difference("owner", "7", "every key of the context is the caller's", "`cog_adapt.owner` is not: with API keys it names the key's owner, without them it is removed"),
    Difference("early-cancel", "7", "a cancel within 1 ms of the start can be lost, or fail an async run()", "it cancels"),
    Difference("stuck-cancel", "7", "a run() that does not heed its cancel keeps its slot until it ends", "its process is killed after CANCEL_GRACE_SECONDS"),
    Difference("training-paths", "8", "in the normal image /trainings runs run()", "/trainings runs train() in every mode"),
    Difference("train-only-class", "8", "a class with setup() and train() alone does not load", "it loads"),
    Difference("pattern-choices", "2", "of a pattern that lists choices a 422 has the pattern alone", "its choices follow, in words", _COG),
    Difference("many-problems", "2", "a 422 lists every problem of the inputs, of a long list thousands", "it lists 100, and how many more there are at least"),
    Difference("long-problems", "2", "a problem repeats a value however long it is", "beyond 1,000 characters its beginning and its end"),
    Difference("drain-async", "11", "respond-async predictions are dropped after 10 s without a webhook", "all that runs is waited for, DRAIN_SECONDS at most"),
)  # fmt: skip
KEPT = (
    ("2", "`/predictions` in train mode runs train()", "kept under STRICT_COG=1"),
    ("3", "health's `version` has `python_sdk`, the documentation says `cog`", "kept"),
    ("4", "the start webhook has status processing, the documentation says starting", "kept"),
    ("4", "output webhooks are not throttled, the documentation says they are", "kept"),
    ("7", "what subprocesses print goes to the server's log alone", "kept"),
    ("7", "swallowing CancelationException: canceled, and the container lives", "kept"),
    ("7", "cancel works for sync requests, the documentation says it does not", "kept"),
)
NEW = (
    "GET /healthz, /readyz, /metrics, /selftest; GET /predictions, /predictions/{id}, "
    "/predictions/{id}/events, …/deliveries and the same for trainings",
    "headers `Cancel-After`, `Last-Event-ID`, `Idempotent-Replayed`, `Retry-After`",
    "bounds, with STRICT_COG=1 too: bodies over 64 KiB are read, checked and encoded in a process of "
    "their own; MAX_BODY_BYTES, BODY_SECONDS, MAX_FILE_BYTES, MAX_STRING_LENGTH and 127 levels of JSON "
    "hold; without it also a queue's length, budgets of bytes, DOWNLOAD_SECONDS and other sites' pages",
    "Standard Webhooks signatures; API keys, limits and an egress guard, by setting",
)
_ROWS = {row.id: row for row in DIFFERENCES}


def expect(server: Server, *, coglet: Value, mirror: Value, because: str) -> Value:
    """What a server of this flavour does, where Cog and the mirror differ.

    Args:
        server: the one under test.
        coglet: what Cog does.
        mirror: what the mirror does.
        because: the id of the row that says so.
    """
    return coglet if follows_cog(server, because) else mirror


def follows_cog(server: Server, because: str) -> bool:
    """Whether this server does as Cog does in a row."""
    row = _ROWS[because]
    return server.is_coglet or (server.flavour == "mirror-strict" and row.strict == _COG)


def document() -> str:
    """The page for people."""
    lines = [
        "# Where the mirror differs from Cog's own server",
        "",
        "Made from `tests/cog_adapt/contract/differences.py` by `python -m tests.cog_adapt.contract.differences`; the",
        "tests in that folder run against both servers and hold each row. Section: of the notes on",
        "Cog's contract that the tests follow.",
        "",
        "## Given back by STRICT_COG=1",
        "",
        *_table(_COG),
        "",
        "## Mended always",
        "",
        *_table("mirror"),
        "",
        "## Odd, but kept as it is",
        "",
        "| § | Cog | mirror |",
        "|---|---|---|",
        *(f"| {section} | {cog} | {mirror} |" for section, cog, mirror in KEPT),
        "",
        "## New, and in nobody's way",
        "",
        *(f"- {line}" for line in NEW),
    ]
    return "\n".join(lines) + "\n"


def _table(strict: str) -> list[str]:
    rows = [row for row in DIFFERENCES if row.strict == strict]
    cells = [f"| {row.section} | `{row.id}` | {row.cog} | {row.mirror} |" for row in rows]
    return ["| § | row | Cog 0.23.1 | mirror |", "|---|---|---|---|", *cells]


if __name__ == "__main__":
    sys.stdout.write(document())
