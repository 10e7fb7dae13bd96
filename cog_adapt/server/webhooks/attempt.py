"""What follows from one attempt at a delivery."""

import email.utils
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from cog_adapt.server.egress import Answer, EgressError
from cog_adapt.server.records.record import Delivery

_AGAIN = (429, 500, 502, 503, 504)
_LONGEST_DELAY = 102.0
DELAYS = tuple(min(0.2 * 2**n, _LONGEST_DELAY) for n in range(12))


def note_attempt(
    delivery: Delivery, outcome: Answer | Exception, now: datetime, delays: Sequence[float]
) -> Delivery:
    """The delivery after one more attempt.

    Args:
        delivery: as it was.
        outcome: the receiver's answer, or why there is none.
        now: UTC.
        delays: seconds until each further attempt; where they are used up, it has failed. It
            has at once where the receiver says no, or is not to be reached.
    """
    changes: dict[str, object] = {
        "attempts": delivery.attempts + 1,
        "state": "delivered" if delivery.delivered_at else "failed",
        "next_attempt_at": None,
        "last_status": outcome.status if isinstance(outcome, Answer) else None,
        "last_error": _publish(outcome),
    }
    if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
        changes |= {"state": "delivered", "delivered_at": now}
    elif _is_passing(outcome) and delivery.attempts < len(delays):
        delay = max(delays[delivery.attempts], _read_retry_after(outcome, now))
        changes |= {"state": "pending", "next_attempt_at": now + timedelta(seconds=delay)}
    return msgspec.structs.replace(delivery, **changes)


def _publish(outcome: Answer | Exception) -> str | None:
    if isinstance(outcome, Exception):
        return str(outcome)
    return None if 200 <= outcome.status < 300 else f"the receiver answered {outcome.status}"


def _is_passing(outcome: Answer | Exception) -> bool:
    if isinstance(outcome, Answer):
        return outcome.status in _AGAIN
    return not isinstance(outcome, EgressError)


def _read_retry_after(outcome: Answer | Exception, now: datetime) -> float:
    text = outcome.headers.get("retry-after", "") if isinstance(outcome, Answer) else ""
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_DELAY)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min((moment - now).total_seconds(), _LONGEST_DELAY)
