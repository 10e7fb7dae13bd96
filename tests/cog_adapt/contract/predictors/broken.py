"""Does not import."""

import no_such_module_at_all  # type: ignore[import-not-found]  # noqa: F401
