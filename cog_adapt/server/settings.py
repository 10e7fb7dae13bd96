"""The operator's settings: read once at start-up from the environment, and frozen.

Names without an explanation are Cog's. An image's environment and `cog.yaml` both count; the
environment wins.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.process_settings import ProcessSettings
from cog_adapt.shared_settings import refusals

COGFILE = Path("cog.yaml")


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class _CogfileSource(PydanticBaseSettingsSource):
    """What `cog.yaml` names; its `environment` is set before settings are read."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        # pydantic calls it field by field only in sources without `__call__`
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        if not COGFILE.exists():
            return {}
        cogfile = read_cogfile(COGFILE)
        values = {
            "cog_predict_type_stub": cogfile.predict_reference,
            "cog_train_type_stub": cogfile.train,
            "cog_max_concurrency": cogfile.concurrency and cogfile.concurrency.max,
        }
        return {name: value for name, value in values.items() if value not in (None, "")}


class Settings(ProcessSettings):
    """Every setting of the server; a field is the variable of its name in capitals."""

    model_config = SettingsConfigDict(extra="ignore")

    port: int = Field(default=5000, ge=0, le=65535, description="port to listen on")
    cog_predict_type_stub: str | None = Field(
        default=None, description="FILE.py:NAME of the predictor; unset: `cog.yaml`'s"
    )
    cog_train_type_stub: str | None = Field(
        default=None, description="FILE.py:NAME of the training; unset: `cog.yaml`'s"
    )
    cog_max_concurrency: int | None = Field(
        default=None, ge=1, description="predictions at once; unset: `@cog.concurrent`'s, else 1"
    )
    cog_setup_timeout: float = Field(
        default=0, ge=0, description="seconds for setup(); 0: no limit"
    )
    cog_throttle_response_interval: float = Field(
        default=0.5, ge=0, description="seconds between two `logs` webhooks"
    )
    cog_stream_history_capacity: int = Field(
        default=1024, ge=0, description="events kept for the replay of a stream"
    )
    cog_user_agent: str | None = Field(default=None, description="User-Agent of downloads")
    webhook_auth_token: str | None = Field(
        default=None, description="bearer token sent with webhooks"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="form of the server's own log; `auto` is `console` on a terminal, else `json`",
    )
    cog_log_level: str = Field(default="info", description="`debug`, `info`, `warning` or `error`")
    kubernetes_service_host: str | None = Field(
        default=None, description="set by Kubernetes: `/var/run/cog/ready` is touched when ready"
    )

    strict_cog: bool = Field(default=False, description="Cog's behaviour where ours differs")
    max_queue: int = Field(
        default=1000, ge=0, description="predictions that may wait; more is 429; 0: 409, as Cog"
    )
    data_dir: Path = Field(default=Path(".data"), description="folder of records and large values")
    database_url: str | None = Field(
        default=None, description="`postgresql://…` or `sqlite:///FILE`; unset: SQLite in DATA_DIR"
    )
    retention_days: float = Field(
        default=30, gt=0, le=100_000, description="days for which finished records are kept"
    )
    retention_count: int = Field(
        default=100_000, ge=1, description="finished records of each kind that are kept at most"
    )
    record_bytes: int | None = Field(
        default=None,
        ge=1,
        description="bytes of records; the oldest go; unset: half of DISK_BYTES, or of the free "
        "disk; with PostgreSQL 64 GiB, or twice what is there at the start",
    )
    temp_file_days: float = Field(
        default=7, gt=0, le=100_000, description="days for which temporary files may stay"
    )
    drain_seconds: float | None = Field(
        default=None,
        ge=0,
        description="seconds on SIGTERM for what is in flight; unset: no limit",
    )
    max_crashes: int = Field(
        default=5,
        ge=1,
        description="crashes in a row until health is DEFUNCT, and the next try waits longer",
    )
    hang_seconds: float = Field(
        default=60,
        ge=0,
        description="seconds without a heartbeat of the worker, or a tick of its model thread, "
        "until it is killed; 0: never",
    )
    cancel_grace_seconds: float = Field(
        default=10,
        ge=0,
        description="seconds for a cancelled prediction to end, until its worker is killed",
    )
    egress_allow: Names = Field(
        default=(),
        description="hosts and networks that callers' URLs may reach beside public ones",
    )
    webhook_secret: str | None = Field(
        default=None, description="`whsec_…` that signs webhooks (Standard Webhooks)"
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        description="connections at once, of one address three quarters; the longest idle goes "
        "first; unset: 8192, or three quarters of the files that may be open",
    )
    max_body_bytes: int = Field(
        default=100 * 2**20, ge=1, description="bytes of a request's body; more is 413"
    )
    body_bytes: int | None = Field(
        default=None, ge=1, description="bytes of all bodies; more is 429; unset: memory / 8"
    )
    queue_bytes: int | None = Field(
        default=None,
        ge=1,
        description="bytes of inputs that wait or run; more is 429; unset: memory / 8",
    )
    answer_bytes: int | None = Field(
        default=None,
        ge=1,
        description="bytes of outputs and logs of what runs; more fails; unset: memory / 8",
    )
    event_bytes: int | None = Field(
        default=None,
        ge=1,
        description="bytes of events kept; the oldest go first; unset: memory / 64",
    )
    webhook_bytes: int | None = Field(
        default=None, ge=1, description="bytes of webhooks that wait; unset: memory / 64"
    )
    max_file_bytes: int = Field(
        default=2**30, ge=1, description="bytes of one input file, decompressed too"
    )
    download_seconds: float = Field(
        default=600, gt=0, description="seconds for one input file, from its first byte to its last"
    )
    max_string_length: int = Field(
        default=64 * 2**20, ge=1, description="characters of one string in an input"
    )
    body_seconds: float = Field(
        default=30, gt=0, description="seconds; a body that pauses for longer is refused"
    )
    api_keys_file: Path | None = Field(
        default=None, description="file of hashed API keys, read again when it changes"
    )
    rate_limit: str | None = Field(
        default=None, description="requests per owner or address, such as `100/minute`"
    )
    cors_origins: Names = Field(default=(), description="origins that browsers may call from")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment first, then `cog.yaml`."""
        return init_settings, env_settings, _CogfileSource(settings_cls)


def read_settings() -> Settings:
    """Read the settings of this process.

    Raises:
        ConfigError: a value is not allowed, or `cog.yaml` is wrong; one line for each.
    """
    try:
        return Settings()
    except ValidationError as error:
        lines = refusals(Settings.model_fields, error)
        raise ConfigError("\n".join(["settings are not allowed; correct:", *lines])) from error
