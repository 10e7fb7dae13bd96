"""Run by alembic with the connection that `server.records.database` hands over."""

from alembic import context

from server.records.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # all or nothing in SQLite too, which alembic does not expect
)
with context.begin_transaction():
    context.run_migrations()
