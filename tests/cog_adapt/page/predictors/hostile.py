"""A predictor that wants to run its own script in the page of whoever looks at it."""
# ruff: noqa: T201 - what it prints is looked at

import json

from cog import BaseRunner, Input

MARKUP = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
LINK = "javascript:document.title='pwned'"
PAGE = "data:text/html,<script>document.title='pwned'</script>"
PICTURE = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload=\"document.title='pwned'\"/>"
)


class Predictor(BaseRunner):
    def run(
        self,
        text: str = Input(default=MARKUP, description=MARKUP),
        choice: str = Input(default=MARKUP, choices=[MARKUP, "plain"]),
    ) -> dict:
        print(MARKUP)
        print(f"step 1/2 loss 0.5 {MARKUP}")
        self.record_metric("adaptation.step", 1)
        self.record_metric("adaptation.loss", 0.5)
        self.record_metric("adaptation.adapter", MARKUP)
        self.record_metric("early", {"predictions": [{"label": MARKUP}], "expected": MARKUP})
        if text == "fail":
            raise ValueError(f"{MARKUP}\nrow 1: {MARKUP}")
        return json.loads(
            json.dumps(
                {
                    MARKUP: MARKUP,
                    "link": LINK,
                    "page": PAGE,
                    "picture": PICTURE,
                    "remote": "http://evil.example/x.png",
                    "rows": [{MARKUP: MARKUP, "link": LINK}],
                    "predictions": [{"label": MARKUP, "scores": {MARKUP: 0.5}}],
                    "before": [{"label": LINK}],
                    "adapter": MARKUP,
                    "report": {"method": MARKUP, "examples": 1, "warnings": [MARKUP]},
                }
            )
        )
