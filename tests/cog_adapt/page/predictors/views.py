"""A predictor of texts, pictures and rows, and a training; the answers are of all shapes."""

from typing import Any

from cog import BaseRunner, Input, Path


class Predictor(BaseRunner):
    def run(
        self,
        texts: list[str] | None = Input(default=None),
        images: list[Path] | None = Input(default=None),
        rows: list[dict] | None = Input(default=None),
        examples: list[dict] | None = Input(default=None),
        steps: int = Input(default=40),
    ) -> Any:
        if texts == ["out of order"]:
            raise ValueError("the text is out of order")
        asked = [*(texts or []), *(images or [])]
        labels: list[Any] = [{"label": "delivery", "scores": {"delivery": 0.73}} for _ in asked]
        numbers = [124.82322353 for _ in rows or []]
        before = [{"label": "refund", "scores": {"refund": 0.5}} for _ in asked]
        return {"predictions": labels + numbers, "before": before if examples else None}


def train(examples: list[dict]) -> Any:
    report = {"losses": [1.25, 0.5], "held_out_before": 0.5, "held_out_after": 0.75}
    return {"report": report, "examples": len(examples)}
