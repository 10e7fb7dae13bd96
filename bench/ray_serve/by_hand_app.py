"""The classifier by hand as a deployment of Ray Serve, by the parts of Ray's documentation.

Routes of FastAPI; what computes runs in threads, so that an adaptation does not block its replica
(a plain function as a route does so by itself); predictions come in batches by `@serve.batch`.
"""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application
from starlette.concurrency import run_in_threadpool

from bench.ray_serve.by_hand import Classifier, Lesson, Question

api = FastAPI()
MOST_REQUESTS = 256


@serve.ingress(api)  # at the import, which a replica repeats: it changes the routes
class ByHand:
    """One replica.

    Args:
        folder: where the adapters' files go; all replicas share it.
    """

    def __init__(self, folder: str) -> None:
        self._classifier = Classifier(Path(folder))

    @api.post("/adapt")
    def adapt(self, lesson: Lesson) -> dict[str, Any]:
        """Learn, and answer."""
        return self._classifier.adapt(lesson)

    @api.post("/predict")
    async def predict(self, question: Question) -> dict[str, Any]:
        """Answer."""
        return {"scores": await self._answer(question)}

    @api.delete("/adapters/{name}")
    def delete(self, name: str) -> None:
        """Forget an adapter."""
        self._classifier.delete(name)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.0)  # type: ignore[untyped-decorator]
    async def _answer(self, questions: list[Question]) -> list[list[dict[str, float]]]:
        return await run_in_threadpool(self._classifier.answers, questions)


def app(folder: Path) -> Application:
    """Return the application that Ray Serve runs."""
    deployment = serve.deployment(
        name="by-hand", max_ongoing_requests=MOST_REQUESTS, ray_actor_options={"num_cpus": 1}
    )
    return deployment(ByHand).bind(str(folder))
