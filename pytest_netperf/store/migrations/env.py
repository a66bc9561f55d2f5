"""What Alembic runs: the steps, on the connection that `pytest_netperf.store.database` opened."""

from alembic import context

from pytest_netperf.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table="netperf_version",
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
