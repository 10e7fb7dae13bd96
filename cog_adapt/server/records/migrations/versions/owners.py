"""The owner of a record or delivery; existing rows have no owner, and only `admin` sees them.

The records get another primary key; for another primary key, SQLite needs a new table.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_INDEXES = (
    ("records_by_time", "records", ["kind", "created_at", "id"]),
    ("records_by_status", "records", ["kind", "status", "created_at", "id"]),
    ("deliveries_by_record", "deliveries", ["kind", "record_id"]),
)


def upgrade() -> None:
    """Add the owner to both tables, and to the key of the records."""
    _drop_indexes()
    for table in ("records", "deliveries"):
        _add_owner(table)
    _set_key(["kind", "id", "owner"])
    for name, table, columns in _INDEXES:
        more = ["created_at"] if table == "deliveries" else []
        op.create_index(name, table, [*columns, "owner", *more])
    op.create_index("records_by_owner", "records", ["owner", "kind", "created_at", "id"])


def downgrade() -> None:
    """Drop the owner, with all records that have one."""
    _drop_indexes()
    op.drop_index("records_by_owner", "records")
    for table in ("records", "deliveries"):
        op.execute(sa.text(f"DELETE FROM {table} WHERE owner <> ''"))
    _set_key(["kind", "id"])
    for table in ("records", "deliveries"):
        op.drop_column(table, "owner")
    for name, table, columns in _INDEXES:
        more = ["created_at"] if table == "deliveries" else []
        op.create_index(name, table, [*columns, *more])


def _drop_indexes() -> None:
    for name, table, _ in _INDEXES:
        op.drop_index(name, table)


def _add_owner(table: str) -> None:
    op.add_column(
        table, sa.Column("owner", sa.String(64), nullable=False, server_default=sa.text("''"))
    )


def _set_key(columns: list[str]) -> None:
    if op.get_context().dialect.name == "postgresql":
        op.drop_constraint("records_pkey", "records")
        op.create_primary_key("records_pkey", "records", columns)
        return
    convention = {"pk": "%(table_name)s_pkey"}  # the first migration gave the key no name
    with op.batch_alter_table("records", naming_convention=convention) as batch:
        batch.drop_constraint("records_pkey", type_="primary")
        batch.create_primary_key("records_pkey", columns)
