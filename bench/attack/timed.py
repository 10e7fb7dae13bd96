"""The shipped door with its model, which also tells the longest tick of the model's thread."""

import threading
import time

import predict

_EVERY_SECONDS = 0.002


class Timed(predict.Predictor):
    """Looks every 2 ms at how long the running tick has lasted."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and look from then on."""
        super().setup(weights)
        self.longest = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def gauges(self) -> dict[str, float]:
        """Tell the longest tick, and all that the runner tells."""
        return {**self.runner.gauges(), "longest_tick_seconds": self.longest}

    def _look(self) -> None:
        while True:
            lasted, _ = self.runner.model_thread_beat()
            self.longest = max(self.longest, lasted)
            time.sleep(_EVERY_SECONDS)
