"""Webhooks: sent in order for each prediction, and signed; only `completed` is retried.

`start`, `output` and `logs` are sent once and not stored. `completed` is a `Delivery` in the
database, written with the final record; after a temporary failure it is retried (`delivery.py` has
the delays), also across restarts of the server. A receiver may get it twice, with the same
`webhook-id`, for instance if the server is killed before it has stored the receiver's answer.
"""

from cog_adapt.server.webhooks.queue import Announcement, LogThrottle
from cog_adapt.server.webhooks.sender import Webhooks
from cog_adapt.server.webhooks.shown_urls import shown_url
from cog_adapt.server.webhooks.signing import WebhookSigner

__all__ = ["Announcement", "LogThrottle", "WebhookSigner", "Webhooks", "shown_url"]
