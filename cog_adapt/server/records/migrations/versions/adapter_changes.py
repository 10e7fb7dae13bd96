"""The changes of adapters that other servers must learn, and the adaptations under way."""

import sqlalchemy as sa
from alembic import op

revision = "adapter_changes"
down_revision = "peers"

MOMENT = sa.String(32).with_variant(sa.DateTime(timezone=True), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add two tables and a column; an earlier release writes neither."""
    op.create_table(
        "adapter_changes",
        sa.Column("seq", NUMBER, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("adapter_id", sa.Text, nullable=False),
        sa.Column("forgotten_key", sa.Text),
        sa.Column("server", sa.String(36), nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("adapter_changes_by_time", "adapter_changes", ["made_at"])
    op.create_table(
        "adaptation_claims",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("server", sa.String(36), nullable=False),
    )
    op.add_column("servers", sa.Column("applied", sa.BigInteger))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("servers", "applied")
    op.drop_table("adaptation_claims")
    op.drop_table("adapter_changes")
