"""A server for Replicate's clients, and the callers with keys."""

import contextlib
import hashlib
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from cog_adapt.server.files.signed_urls import SignedUrls
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.proxied import PROXY, one_or_many

KEYS = {
    "ada-key": "ada predict,train",
    "bob-key": "bob predict,train",
    "eve-key": "eve admin",
}
ADA, BOB, EVE = ({"Authorization": f"Bearer {key}"} for key in KEYS)
ROWS = json.dumps([{"text": "aa", "label": "low"}, {"text": "yy", "label": "high"}])
SECRET = "whsec_" + "a2tr" * 8
CODE = """
    import time

    from cog import BaseRunner, ConcatenateIterator, Input, Path


    class Predictor(BaseRunner):
        def run(
            self,
            text: str = Input(default="a b c"),
            seconds: float = Input(default=0.0),
            fail: bool = Input(default=False),
            file: Path | None = Input(default=None),
            adapter: str = Input(default=""),
        ) -> ConcatenateIterator[str]:
            print("76%|███ | 7568/10000 [00:33<00:10]" if text == "tqdm" else "reads")
            if file is not None:
                yield f"{file.suffix}={file.read_text()} "
            for word in text.split():
                yield word + " "
                for _ in range(100):
                    time.sleep(seconds / len(text.split()) / 100)
            if adapter:
                yield adapter
            if fail:
                raise ValueError("a wrong word")
"""
LEARNER = """
    import asyncio
    from pathlib import Path as LocalPath

    from cog import BaseModel, BaseRunner, Input, Path

    from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer, train
    from tests.cog_adapt.models import Letters


    class Output(BaseModel):
        weights: Path
        report: dict


    class Learner(BaseRunner):
        def setup(self) -> None:
            self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

        async def run(self, text: str = "abc", adapter: str = "") -> str:
            found = await answer(self.runner, Request([text], adapter=adapter), self.scope)
            return found.adapter

        async def train(self, examples: str, seconds: float = 0) -> Output:
            await asyncio.sleep(seconds)
            request = Request(examples=examples, recipe=Recipe("head", max_steps=2))
            done = await train(self.runner, request, self.scope)
            return Output(weights=Path(done.weights), report=done.report)
"""


@contextlib.contextmanager
def site(
    folder: Path,
    code: str = CODE,
    name: str = "Predictor",
    *,
    port: int | None = None,
    is_alone: bool = not PROXY,
    **env: str,
) -> Iterator[Server]:
    """Serve a predictor with the keys, unless the environment has an empty API_KEYS_FILE.

    Args:
        folder: where it runs.
        code: of the predictor.
        name: of the predictor's class.
        port: to listen on; None: a free one.
        is_alone: whether one server serves it, whatever `PROXY` says.
        env: further variables.
    """
    (folder / "model.py").write_text(textwrap.dedent(code))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    variables = {"API_KEYS_FILE": str(folder / "keys"), "WEBHOOK_SECRET": SECRET}
    variables |= {"WEIGHTS_DIR": str(folder / "weights")} | env
    reference = f"model.py:{name}"
    train = reference if name == "Learner" else None
    with one_or_many(
        folder,
        predict=reference,
        train=train,
        env=variables,
        port=port,
        is_alone=is_alone,
    ) as server:
        yield server


def signer_of(server: Server) -> SignedUrls:
    """Signs as a server does."""
    folder = next(server.folder.rglob(".data"))
    return SignedUrls.shared(folder, server.database)
