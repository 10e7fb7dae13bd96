"""Where a server is asked by the others, the work that they may take, and shared rates.

A later release may drop or change what an earlier one needs only in a migration that also raises
`schema_floor.oldest`: servers of both releases serve one database during an upgrade.
"""

import sqlalchemy as sa
from alembic import op

from cog_adapt.server.records.tables import Moment

revision = "peers"
down_revision = "record_origins"


def upgrade() -> None:
    """Add columns that may be empty, and tables; servers of the release before go on."""
    op.add_column("servers", sa.Column("url", sa.Text))
    op.add_column("servers", sa.Column("token", sa.String(64)))
    op.add_column("servers", sa.Column("waiting", sa.Integer))
    op.add_column("records", sa.Column("movable", sa.Boolean))
    op.create_table(
        "rate_counts",
        sa.Column("server", sa.String(36), primary_key=True),
        sa.Column("tick", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("caller", sa.Text, primary_key=True),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("counted_at", Moment, nullable=False),
    )
    op.create_index("rate_counts_by_time", "rate_counts", ["counted_at"])
    floor = op.create_table("schema_floor", sa.Column("oldest", sa.String(32), primary_key=True))
    op.bulk_insert(floor, [{"oldest": "record_origins"}])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("schema_floor")
    op.drop_table("rate_counts")
    op.drop_column("records", "movable")
    for name in ("waiting", "token", "url"):
        op.drop_column("servers", name)
