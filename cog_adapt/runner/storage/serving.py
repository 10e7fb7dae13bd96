"""Whether kept adapters may answer now: a server of several may have missed a removal."""

from collections.abc import Callable

from cog_adapt.runner.errors import NotServedError


class Serving:
    """Whether adapters may be found for requests; they may, unless a server says otherwise."""

    def __init__(self) -> None:
        self._may_serve: Callable[[], bool] = lambda: True

    def only_while(self, may_serve: Callable[[], bool]) -> None:
        """Find adapters only while this returns True; it is asked at each use."""
        self._may_serve = may_serve

    def check(self) -> None:
        """Raise NotServedError if adapters must not be found now."""
        if not self._may_serve():
            raise NotServedError(
                "kept adapters are not served now: this server could not learn for 10 s what other "
                "servers have removed. Make the database of DATABASE_URL reachable, or try again."
            )
