"""A predictor whose outputs would stop a page that trusts in their size or shape."""
# ruff: noqa: T201 - what it prints is looked at

from typing import Any

from cog import BaseRunner, Input

TEMPLATE = {"_$litType$": 1, "strings": ["<img src=x onerror=alert(1)>"], "values": []}
LIST_OF = 10**9  # of so many items an object says it is a list

OUTPUTS: dict[str, Any] = {
    "keys": lambda: {f"key {n}": n for n in range(100_000)},
    "columns": lambda: [{f"column {n}": n for n in range(20_000)}] * 3,
    "rows": lambda: [{"text": f"row {n}", "n": n} for n in range(200_000)],
    "texts": lambda: ["x" * 50_000] * 400,
    "address": lambda: f"https://example.org/{'x' * 1_000_000}.png",
    "deep": lambda: [[[["x" * 1000] * 10] * 10] * 10] * 20,
    "text": lambda: "some words " * 1_000_000,
    "templates": lambda: {"predictions": [TEMPLATE], "before": [TEMPLATE], "report": TEMPLATE},
    "logs": lambda: "printed",
    "record": lambda: {"adapter": "../shutdown?x=", "report": {"losses": TEMPLATE}},
}
ENDLESS: dict[str, Any] = {"length": LIST_OF, "0": TEMPLATE}


class Predictor(BaseRunner):
    def run(self, what: str = Input(default="keys")) -> Any:
        if what == "logs":
            for number in range(100_000):
                print(f"line {number} of many, and more words in it")
        if what in ("templates", "record"):
            self.record_metric("adaptation.step", 1)
            self.record_metric("early", {"predictions": ENDLESS, "expected": TEMPLATE})
            self.record_metric("adaptation.loss", 1e308)
            self.record_metric("adaptation.gradient_norm", -1e308)
            self.record_metric("adaptation.report", {"warnings": ENDLESS, "method": TEMPLATE})
            print("step 1/999999999999999999999999 loss 1")
        return OUTPUTS[what]()
