"""Webhooks: in order for each prediction, signed, and the last one tried again after failures.

`start`, `output` and `logs` are tried once and kept nowhere. `completed` is a `Delivery` in the
database, written with the final record; while a failure may pass, it is sent again (`retries.py`
says how often), across restarts of the server too. It may come twice, with the same `webhook-id`:
when the server is killed after the receiver's answer and before that is noted, for one.
"""

from cog_adapt.server.webhooks.queue import Announcement, LogThrottle
from cog_adapt.server.webhooks.sender import Webhooks
from cog_adapt.server.webhooks.signing import WebhookSigner

__all__ = ["Announcement", "LogThrottle", "WebhookSigner", "Webhooks"]
