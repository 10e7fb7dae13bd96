"""An index of the adapters that the predictor keeps."""

import sqlalchemy as sa
from alembic import op

revision = "adapters_index"
down_revision = "0003"

MOMENT = sa.String(32).with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create it, empty: each start of a worker fills it from the files."""
    op.create_table(
        "adapters",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("version", sa.Integer),
        sa.Column("method", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("indexed_at", MOMENT, nullable=False),
    )
    op.create_index("adapters_by_time", "adapters", ["created_at", "id", "owner"])
    op.create_index("adapters_by_owner", "adapters", ["owner", "created_at", "id"])
    op.create_index("adapters_by_name", "adapters", ["name", "owner", "version"])
    op.create_index("adapters_by_id", "adapters", ["id"])
    op.create_table(
        "adapter_readers",
        sa.Column("reader", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("adapter_id", sa.Text, primary_key=True),
    )
    op.create_index("adapter_readers_by_adapter", "adapter_readers", ["owner", "adapter_id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("adapter_readers")
    op.drop_table("adapters")
