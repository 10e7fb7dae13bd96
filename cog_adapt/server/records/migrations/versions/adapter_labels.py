"""The labels of the adapters in the index, to look for them by one."""

import sqlalchemy as sa
from alembic import op

revision = "adapter_labels"
down_revision = "adapters_index"


def upgrade() -> None:
    """Create the table, empty: each start of a worker fills it from the files."""
    op.create_table(
        "adapter_labels",
        sa.Column("label", sa.String(32), primary_key=True),
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("adapter_id", sa.Text, primary_key=True),
    )
    op.create_index("adapter_labels_by_adapter", "adapter_labels", ["owner", "adapter_id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("adapter_labels")
