"""What servers of one PostgreSQL had in a folder in common: large texts, uploads, a secret."""

import sqlalchemy as sa
from alembic import op

revision = "shared_values"
down_revision = "adapter_changes"

MOMENT = sa.String(32).with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the tables, empty, and the columns that say which folder of adapters a server has."""
    op.add_column("servers", sa.Column("folder", sa.Text))
    op.add_column("servers", sa.Column("folder_path", sa.Text))
    op.create_table(
        "blobs",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
    )
    op.create_index("uploads_by_owner", "uploads", ["owner"])
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.String(40), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for name in ("secrets", "upload_parts", "uploads", "blobs"):
        op.drop_table(name)
    op.drop_column("servers", "folder_path")
    op.drop_column("servers", "folder")
