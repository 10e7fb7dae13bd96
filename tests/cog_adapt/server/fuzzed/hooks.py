"""What schemathesis is told of this server: webhooks stay on this machine, where nobody listens."""

import schemathesis
from hypothesis import strategies

schemathesis.openapi.format("uri", strategies.just("http://127.0.0.1:1/hook"))
