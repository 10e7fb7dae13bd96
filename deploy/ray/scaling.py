"""The number of replicas: by runs that wait, and by adaptations that run.

Ray's own measure, open HTTP requests, misses runs that were answered with 202, and counts readers
of events, which cost nothing. Ray calls the policy in its controller, without this project, so the
module imports Python's own modules alone.
"""

import math
from typing import Any

_MEASURES = ("waiting", "adaptations")


def replicas_for_work(context: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401 - Ray's own type
    """Return how many replicas the work of all needs, and the policy's state.

    Args:
        context: Ray's `AutoscalingContext`; its numbers are those of
            `WholeServer.record_autoscaling_stats`, each replica's mean over the last 30 s.
    """
    numbers = context.aggregated_metrics or {}
    work = sum(sum(numbers.get(name, {}).values()) for name in _MEASURES)
    wanted = math.ceil(work / context.config.get_target_ongoing_requests())
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return max(least, min(most, wanted)), {}
