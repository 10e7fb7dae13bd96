"""The HTTP endpoints: parse, call the service, wrap."""
