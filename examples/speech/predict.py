"""Cog's predictor: parses a request, calls the runner, and wraps the answer."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path, concurrent

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from examples.speech.task import Transcription


class Output(BaseModel):
    """Texts by the adapted weights and before, and what the adaptation did."""

    predictions: list[str]
    before: list[str] | None
    adapter: str | None
    report: dict[str, Any] | None


class Predictor(BaseRunner):
    """Transcribes speech; a request may carry sounds with their transcripts."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Transcription(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @concurrent(max=32)
    async def run(
        self,
        sounds: list[Path] = Input(
            description="WAV files of 8 or 16 bits: files, URLs or data URIs"
        ),
        examples: str | list[dict] = Input(
            description="Rows of input (a WAV file in base64 or a data URI) and target", default=""
        ),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        steps: int = Input(description="Steps at most", default=20, ge=1, le=2000),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> Output:
        """Write down speech, after adapting to the examples where there are any."""
        recipe = Recipe(max_steps=steps, batch_size=4, learning_rate=3e-3, seed=seed)
        request = Request(
            inputs=sounds,
            examples=examples,
            examples_file=examples_file,
            adapter=adapter,
            weights=weights,
            recipe=recipe,
        )
        return Output(**vars(await answer(self.runner, request, self.scope)))

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
