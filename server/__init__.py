"""The mirror of Cog's HTTP API. So far: the OpenAPI schema that coglet needs."""
