"""The requests read last: an equal request need not be parsed and digested again.

Holds digests, labels and warnings, but no examples; also the answers to a few inputs before the
adaptation, which would cost a forward of their own. This module knows no store and no model.
"""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cog_adapt.runner.data.plain_values import Place, utf8_pieces, without_long_texts
from cog_adapt.runner.request import Request

_MOST = 1024
_MOST_ANSWERS = 32  # answers stored of a request


@dataclass(frozen=True)
class RecentRequest:
    """The content of a request that was read.

    Attributes:
        key: of its adaptation (`AdaptationKey.whole`).
        labels: of its examples.
        warnings: about its examples.
        inputs: digest of the inputs answered last; None: none are kept.
        before: the answers to these inputs before the adaptation.
    """

    key: str
    labels: tuple[str, ...]
    warnings: tuple[str, ...]
    inputs: str | None = None
    before: Sequence[Any] = ()

    def before_of(self, request: Request) -> list[Any] | None:
        """Return the kept answers to a request's inputs before its adaptation, or None."""
        if self.inputs is None or self.inputs != _inputs_digest(request):
            return None
        return copy.deepcopy([*self.before])


def request_digest(request: Request) -> str | None:
    """Return a digest of a request's adaptation; None if a part of the request is a file."""
    if not request.examples or request.examples_file or request.adapter or request.weights:
        return None
    recipe, defaults = repr(request.recipe), dict(request.row_defaults)
    said = [request.examples, [*request.labels], recipe, request.fresh, defaults]
    return _digest(said)


def _inputs_digest(request: Request) -> str | None:
    if len(request.inputs) > _MOST_ANSWERS:
        return None
    blend = [request.lora_scale, request.extra_lora, request.extra_lora_scale]
    return _digest([[*request.inputs], repr(request.options), request.deterministic, blend])


def _digest(said: object) -> str | None:
    """Return a digest of JSON; its long texts are digested apart, and named by their places."""
    long: list[tuple[Place, str]] = []
    try:
        short = without_long_texts(said, long)
        apart = [[place, _text_digest(text)] for place, text in long]
        return hashlib.sha256(json.dumps([short, apart], ensure_ascii=False).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return None


def _text_digest(text: str) -> str:
    digest = hashlib.sha256()
    for piece in utf8_pieces(text):
        digest.update(piece)
    return digest.hexdigest()


class RecentRequests:
    """The last requests of all owners; each is removed with its decision."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], RecentRequest] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Count the requests."""
        return len(self._known)

    def get(self, owner: str, digest: str | None) -> RecentRequest | None:
        """Return the content of an owner's request, or None."""
        with self._lock:
            return None if digest is None else self._known.get((owner, digest))

    def put(self, owner: str, digest: str | None, recent: RecentRequest) -> None:
        """Store the content of an owner's request; the oldest is evicted."""
        if digest is None:
            return
        with self._lock:
            self._known[owner, digest] = recent
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    def note_before(self, owner: str, request: Request, before: Sequence[Any]) -> None:
        """Store the answers to an owner's request before its adaptation; only the last are kept."""
        name, inputs = (owner, request_digest(request) or ""), _inputs_digest(request)
        with self._lock:
            if name in self._known and inputs is not None:
                kept = copy.deepcopy([*before])
                self._known[name] = replace(self._known[name], inputs=inputs, before=kept)

    def forget(self, owner: str, key: str) -> None:
        """Drop an owner's requests for this key."""
        with self._lock:
            items = [*self._known.items()]
            for each in (name for name, recent in items if (name[0], recent.key) == (owner, key)):
                del self._known[each]
