"""The one way out for a URL that a caller names: input files and webhooks.

Only public addresses are reached, and those that EGRESS_ALLOW names. What is checked is the
address that a connection is made to, not the text of a URL, so that no spelling, redirect or
second answer of a name server leads elsewhere.
"""

from cog_adapt.server.egress.addresses import EgressError
from cog_adapt.server.egress.client import Answer, DownloadError, Egress
from cog_adapt.server.egress.transfer import Transfer

__all__ = ["Answer", "DownloadError", "Egress", "EgressError", "Transfer"]
