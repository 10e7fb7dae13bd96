"""The OpenAPI document that the mirror serves: Cog's, and what Cog does not list."""

import copy
from typing import Any

Schema = dict[str, Any]


def mirror_document(document: Schema, *, strict: bool) -> Schema:
    """The document of a predictor with the mirror's own endpoints.

    Args:
        document: as `cog build` bundles it.
        strict: leave it as it is.
    """
    if strict:
        return document
    return copy.deepcopy(document)
