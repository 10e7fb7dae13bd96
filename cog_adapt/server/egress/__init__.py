"""Requests to URLs that callers name: input files and webhooks.

Only public addresses are reached, and those that EGRESS_ALLOW names. The check applies to the
address of the connection, not to the text of a URL, so that no spelling, redirect or second answer
of a name server leads elsewhere.
"""

from cog_adapt.server.egress.addresses import EgressError
from cog_adapt.server.egress.client import Answer, DownloadError, Egress
from cog_adapt.server.egress.transfer import Transfer

__all__ = ["Answer", "DownloadError", "Egress", "EgressError", "Transfer"]
