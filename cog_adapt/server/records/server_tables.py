"""The tables by which the servers of one database work together; `tables.py` has what they serve.

A change needs a migration in `migrations/versions/`; a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from cog_adapt.server.records.tables import Moment, metadata

servers = Table(
    "servers",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started", Text, nullable=False),
    Column("lease_until", Moment, nullable=False),
    Column("url", Text),
    Column("token", String(64)),
    Column("waiting", Integer),
    # the last change of an adapter that its workers know; NULL: an earlier release follows none
    Column("applied", BigInteger),
    # The identity of its folder of adapters; "": it has none; NULL: it is of an earlier release.
    Column("folder", Text),
    Column("folder_path", Text),
)

# The calls that each server has admitted, by its own ticks of about a second.
rate_counts = Table(
    "rate_counts",
    metadata,
    Column("server", String(36), primary_key=True),
    Column("tick", BigInteger, primary_key=True, autoincrement=False),
    Column("caller", Text, primary_key=True),
    Column("calls", Integer, nullable=False),
    Column("counted_at", Moment, nullable=False),
    Index("rate_counts_by_time", "counted_at"),
)

# One row: the oldest schema whose release works with this one.
schema_floor = Table("schema_floor", metadata, Column("oldest", String(32), primary_key=True))

# What other servers must learn of adapters, in the order of commits; rows of an hour are kept.
adapter_changes = Table(
    "adapter_changes",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("adapter_id", Text, nullable=False),
    Column("forgotten_key", Text),
    Column("server", String(36), nullable=False),
    Column("made_at", Moment, nullable=False),
    Index("adapter_changes_by_time", "made_at"),
    sqlite_autoincrement=True,
)

# The adaptations under way, each at one server.
adaptation_claims = Table(
    "adaptation_claims",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("server", String(36), nullable=False),
)

# In PostgreSQL alone: the texts that SQLite's servers have in files.
blobs = Table(
    "blobs",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("changed_at", Moment, nullable=False),
)

# In PostgreSQL alone; `cog_adapt/server/files/upload_rows.py` reads and writes them.
uploads = Table(
    "uploads",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("is_whole", Boolean, nullable=False),
    Index("uploads_by_owner", "owner"),
)
upload_parts = Table(
    "upload_parts",
    metadata,
    Column("upload_id", String(40), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# In PostgreSQL alone: what signs the URLs of all servers.
secrets = Table(
    "secrets",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

__all__ = [
    "adaptation_claims",
    "adapter_changes",
    "blobs",
    "metadata",
    "rate_counts",
    "schema_floor",
    "secrets",
    "servers",
    "upload_parts",
    "uploads",
]
