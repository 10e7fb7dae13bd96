"""Removes two unused columns of the records."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Drop the two columns."""
    op.drop_column("records", "attempts")
    op.drop_column("records", "version")


def downgrade() -> None:
    """Add the two columns, with the values of a new record."""
    op.add_column("records", sa.Column("version", sa.Text))
    op.add_column(
        "records", sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0"))
    )
