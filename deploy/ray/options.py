"""The arguments of the application, from `serve run … name=value` or `args` of a config file."""

import os
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.settings import Settings

DRAIN_SECONDS = 300.0
"""The time to drain where DRAIN_SECONDS is unset: Ray kills a replica that has no limit."""

PROXY_DRAIN_SECONDS = 30.0
"""A replica serves on for so long after it is told to end: proxies still send it requests."""

_END_SECONDS = 15.0  # to end the worker and to write the last records


def _gpus_of_device() -> float:
    return float(os.environ.get("DEVICE", "auto").startswith("cuda"))


def _cores_of_torch() -> float:
    return float(os.environ.get("OMP_NUM_THREADS") or 1)


Replicas = Annotated[int, Field(ge=1, le=10_000)]


class Options(BaseModel):
    """What Ray Serve is told about the server's replicas.

    Attributes:
        min_replicas: replicas that are always kept.
        max_replicas: replicas at most; two or more need PostgreSQL.
        work_per_replica: waiting runs and running adaptations of one replica, above which another
            replica is started.
        num_gpus: devices of a replica, which sees no others; by default 1 if DEVICE is `cuda`.
        num_cpus: cores that Ray reserves for a replica; by default OMP_NUM_THREADS, else 1.
        drain_seconds: of the server; by default DRAIN_SECONDS, else 300.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    min_replicas: Replicas = 1
    max_replicas: Replicas = 1
    work_per_replica: float = Field(default=8, gt=0)
    num_gpus: float = Field(default_factory=_gpus_of_device, ge=0)
    num_cpus: float = Field(default_factory=_cores_of_torch, gt=0)
    drain_seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> "Options":
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas}, below min_replicas, {self.min_replicas}. "
                "Raise it."
            )
        device = os.environ.get("DEVICE", "auto")
        if device.startswith("cuda") and not self.num_gpus:
            raise ValueError(
                f"DEVICE is {device!r} and num_gpus is 0, for which Ray hides every device. "
                "Set num_gpus=1, or DEVICE=cpu."
            )
        return self

    def with_drain(self, settings: Settings) -> "Options":
        """Return these options with a time to drain."""
        if self.drain_seconds is not None:
            return self
        drain = DRAIN_SECONDS if settings.drain_seconds is None else settings.drain_seconds
        return self.model_copy(update={"drain_seconds": drain})

    @property
    def seconds_to_end(self) -> float:
        """Seconds after which Ray kills a replica that it has told to end.

        Proxies turn away; open requests end; and then what runs without a waiting client ends.
        """
        return PROXY_DRAIN_SECONDS + 2 * (self.drain_seconds or 0.0) + _END_SECONDS

    def check_shared(self, settings: Settings) -> None:
        """Check that several replicas would share their records.

        Raises:
            ConfigError: they would not.
        """
        url = settings.database_url or ""
        if self.max_replicas > 1 and not url.startswith("postgresql"):
            raise ConfigError(
                f"max_replicas is {self.max_replicas}, and each replica would have a SQLite file "
                "of its own. Set DATABASE_URL=postgresql://…, or max_replicas=1."
            )
