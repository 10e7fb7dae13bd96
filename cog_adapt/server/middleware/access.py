"""Which key opens which route: what is not in the table needs `admin`."""

from typing import Final, Literal

from cog_adapt.server.middleware.keys import Scope

ANY_KEY: Final = "any"
Need = Scope | Literal["any"]

OPEN = frozenset({"/healthz"})  # liveness: whoever restarts the container has no key

NEEDS: dict[str, Need] = {
    "GET /": ANY_KEY,
    "GET /health-check": ANY_KEY,
    "GET /readyz": ANY_KEY,
    "GET /openapi.json": ANY_KEY,
    "GET /docs": ANY_KEY,
    "GET /docs/{id}": ANY_KEY,
    "GET /selftest": ANY_KEY,
    "GET /metrics": ANY_KEY,
    "DELETE /owners/{id}/data": ANY_KEY,  # one's own, of the kinds that the key opens
    "GET /predictions": "predict",
    "POST /predictions": "predict",
    "GET /predictions/{id}": "predict",
    "PUT /predictions/{id}": "predict",
    "DELETE /predictions/{id}": "predict",
    "POST /predictions/{id}/cancel": "predict",
    "GET /predictions/{id}/events": "predict",
    "GET /predictions/{id}/stream": "predict",
    "GET /predictions/{id}/deliveries": "predict",
    "POST /predictions/{id}/deliveries/{id}/redeliver": "predict",
    "GET /adapters": "predict",
    "POST /adapters": "predict",
    "GET /adapters/{id}": "predict",
    "PATCH /adapters/{id}": "predict",
    "DELETE /adapters/{id}": "predict",
    "GET /adapters/{id}/download": "predict",
    "GET /trainings": "train",
    "POST /trainings": "train",
    "GET /trainings/{id}": "train",
    "PUT /trainings/{id}": "train",
    "DELETE /trainings/{id}": "train",
    "POST /trainings/{id}/cancel": "train",
    "GET /trainings/{id}/events": "train",
    "GET /trainings/{id}/stream": "train",
    "GET /trainings/{id}/deliveries": "train",
    "POST /trainings/{id}/deliveries/{id}/redeliver": "train",
}


def need_of(method: str, path: str) -> Need:
    """Return the scope that a key needs for this request."""
    parts = path.split("/")
    for place in (2, 4):
        if len(parts) > place and parts[place]:
            parts[place] = "{id}"
    return NEEDS.get(f"{'GET' if method == 'HEAD' else method} {'/'.join(parts)}", "admin")
