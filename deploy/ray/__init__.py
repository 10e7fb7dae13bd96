"""The whole server as an application of Ray Serve (`docs/deploy.md`)."""
