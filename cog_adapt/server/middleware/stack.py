"""The middlewares around the application, in their order.

All of them are plain ASGI, so that they also apply to routes added later.
"""

from starlette.types import ASGIApp

from cog_adapt.server.middleware.access import is_liveness, is_open
from cog_adapt.server.middleware.auth import AuthMiddleware
from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware
from cog_adapt.server.middleware.cors import allow_origins
from cog_adapt.server.middleware.cross_site import CrossSiteMiddleware
from cog_adapt.server.middleware.keys import KeyRing
from cog_adapt.server.middleware.local_callers import LocalCallersMiddleware
from cog_adapt.server.middleware.metrics import MetricsMiddleware
from cog_adapt.server.middleware.peer_calls import PeerCallsMiddleware
from cog_adapt.server.middleware.problem_details import ProblemDetailsMiddleware
from cog_adapt.server.middleware.rate_limit import RateLimitMiddleware, read_rates
from cog_adapt.server.middleware.route_bodies import RouteBodies
from cog_adapt.server.middleware.shared_rates import SharedWindows
from cog_adapt.server.records import Records
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import Budget, body_budget
from cog_adapt.server.telemetry.metrics import Metrics


def add_middleware(
    app: ASGIApp, settings: Settings, metrics: Metrics, records: Records | None = None
) -> ASGIApp:
    """Return the application behind its limits and keys, counted.

    Args:
        app: the application.
        settings: of the operator.
        metrics: counts the requests.
        records: the database; None: no other server asks this one.

    Raises:
        ConfigError: API_KEYS_FILE, RATE_LIMIT or CORS_ORIGINS is wrong.
    """
    bodies = body_budget(settings)
    metrics.watch(bodies)
    guarded = add_access_control(app, settings, bodies, records)
    if records is not None:
        guarded = PeerCallsMiddleware(guarded, records.peers.token)
    return MetricsMiddleware(guarded, metrics)


def add_access_control(
    app: ASGIApp,
    settings: Settings,
    bodies: Budget | None = None,
    records: Records | None = None,
) -> ASGIApp:
    """Return the application behind the configured middlewares, and always behind body limits.

    Args:
        app: the application.
        settings: of the operator.
        bodies: the budget of all bodies; None: from the settings.
        records: the database by which servers share rates; None: rates are this server's alone.

    Raises:
        ConfigError: API_KEYS_FILE, RATE_LIMIT or CORS_ORIGINS is wrong.
    """
    limits = RouteBodies(settings, bodies or body_budget(settings))
    app = BodyLimitMiddleware(app, limits.of)
    if settings.rate_limit:
        app = _limit_rates(app, settings.rate_limit, records)
    if settings.api_keys_file:
        opened = is_liveness if settings.strict_cog else is_open
        app = AuthMiddleware(app, KeyRing(settings.api_keys_file), opened)
    elif not settings.strict_cog:
        app = CrossSiteMiddleware(LocalCallersMiddleware(app), settings.cors_origins)
    if not settings.strict_cog:
        app = ProblemDetailsMiddleware(app)
    if settings.cors_origins:
        # outermost: a browser's preflight carries no key, and a page may read a refusal
        app = allow_origins(app, settings.cors_origins)
    return app


def _limit_rates(app: ASGIApp, setting: str, records: Records | None) -> ASGIApp:
    rates = read_rates(setting)
    if records is None or not records.peers.is_shared:
        return RateLimitMiddleware(app, rates)
    return RateLimitMiddleware(app, rates, SharedWindows(rates, records.rates))
