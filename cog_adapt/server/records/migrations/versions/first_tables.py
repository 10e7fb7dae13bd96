"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

MOMENT = sa.String(32).with_variant(sa.DateTime(timezone=True), "postgresql")


def _index_blobs(table: str, *columns: str) -> None:
    for column in columns:
        condition = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            f"{table}_by_{column}",
            table,
            [column],
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _create_records() -> None:
    op.create_table(
        "records",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("completed_at", MOMENT),
        sa.Column("input", sa.Text),
        sa.Column("input_blob", sa.String(64)),
        sa.Column("payload", sa.Text),
        sa.Column("payload_blob", sa.String(64)),
        sa.Column("input_digest", sa.String(64)),
        sa.Column("output", sa.Text),
        sa.Column("output_blob", sa.String(64)),
        sa.Column("logs", sa.Text),
        sa.Column("logs_blob", sa.String(64)),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("webhook", sa.Text),
        sa.Column("webhook_events", sa.Text),
        sa.Column("server", sa.String(36)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retries_left", sa.Integer, nullable=False),
        sa.Column("deadline", MOMENT),
        sa.Column("version", sa.Text),
    )
    op.create_index("records_by_time", "records", ["kind", "created_at", "id"])
    op.create_index("records_by_status", "records", ["kind", "status", "created_at", "id"])
    _index_blobs("records", "input_blob", "payload_blob", "output_blob", "logs_blob")


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("record_id", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("body_blob", sa.String(64)),
        sa.Column("headers", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", MOMENT),
        sa.Column("last_status", sa.Integer),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("delivered_at", MOMENT),
        sa.Column("server", sa.String(36)),
    )
    op.create_index("deliveries_by_record", "deliveries", ["kind", "record_id", "created_at"])
    op.create_index("deliveries_by_state", "deliveries", ["state", "next_attempt_at"])
    _index_blobs("deliveries", "body_blob")


def upgrade() -> None:
    """Create records, deliveries and servers."""
    _create_records()
    _create_deliveries()
    op.create_table(
        "servers",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("lease_until", MOMENT, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("servers", "deliveries", "records"):
        op.drop_table(table)
