"""A model server whose prediction requests may carry training examples."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cog_adapt.server.app import create_app as create_app
    from cog_adapt.server.settings import Settings as Settings


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "Settings":
        from cog_adapt.server.settings import Settings

        return Settings
    if name == "create_app":
        from cog_adapt.server.app import create_app

        return create_app
    raise AttributeError(name)
