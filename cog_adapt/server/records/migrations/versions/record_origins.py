"""How a record came by another protocol, whose answers name what the request named."""

import sqlalchemy as sa
from alembic import op

revision = "record_origins"
down_revision = "adapter_labels"


def upgrade() -> None:
    """Add the column, empty."""
    op.add_column("records", sa.Column("origin", sa.Text))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("records", "origin")
