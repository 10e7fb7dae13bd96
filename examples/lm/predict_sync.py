"""A synchronous predictor: pieces are sent as they are made, under Cog's own server too.

Cog's server collects all pieces of an asynchronous generator until its end. One synchronous `run`
works at a time, so requests do not share forwards there; the mirror needs no such predictor.
"""

from cog import BaseRunner, ConcatenateIterator, Input, streaming

from cog_adapt import ModelRunner, Request, RunnerSettings, TextOptions, stream_sync
from examples.lm.task import Chat


class Predictor(BaseRunner):
    """Streams the answer to one prompt, by an adapter if the request names one."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Chat(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @streaming
    def run(
        self,
        prompt: str = Input(description="What to answer"),
        max_tokens: int = Input(description="Of the answer", default=256, ge=1, le=8192),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
    ) -> ConcatenateIterator[str]:
        """Answer, piece by piece."""
        request = Request(
            inputs=[prompt], adapter=adapter, options=TextOptions(max_tokens=max_tokens)
        )
        yield from stream_sync(self.runner, request, self.scope)
