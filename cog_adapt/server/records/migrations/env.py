"""Runs the migrations for alembic, on the connection from `cog_adapt.server.records.database`."""

from alembic import context

from cog_adapt.server.records.server_tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # all or nothing in SQLite too, which alembic does not expect
)
with context.begin_transaction():
    context.run_migrations()
