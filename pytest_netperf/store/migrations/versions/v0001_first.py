"""The first tables: runs, their devices, their journal lines, and the rows among these."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "netperf_run",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("station", sa.Text),
        sa.Column("host", sa.Text),
        sa.Column("operator", sa.Text),
        sa.Column("finished_at", sa.String(40)),
        sa.Column("exit_status", sa.Integer),
    )
    op.create_table(
        "netperf_device",
        sa.Column("run_id", sa.String(128), sa.ForeignKey("netperf_run.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("serial", sa.Text, primary_key=True),
        sa.Column("model", sa.Text),
        sa.Column("batch", sa.Text),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("verdict", sa.String(40)),
        sa.Column("sheet_digest", sa.String(64)),
    )
    op.create_index("netperf_device_serial", "netperf_device", ["serial", "started_at"])
    op.create_index("netperf_device_model", "netperf_device", ["model", "started_at"])
    op.create_index("netperf_device_batch", "netperf_device", ["batch"])
    op.create_table(
        "netperf_event",
        sa.Column("run_id", sa.String(128), sa.ForeignKey("netperf_run.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "netperf_row",
        sa.Column("run_id", sa.String(128), sa.ForeignKey("netperf_run.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("row_id", sa.Text, nullable=False),
        sa.Column("serial", sa.Text, nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("batch", sa.Text),
        sa.Column("test", sa.Text, nullable=False),
        sa.Column("link", sa.Text),
        sa.Column("quantity", sa.Text, nullable=False),
        sa.Column("statistic", sa.Text),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("value", sa.Float(53)),
        sa.Column("uncertainty", sa.Float(53)),
        sa.Column("limit_text", sa.Text),
        sa.Column("limit_low", sa.Float(53)),
        sa.Column("limit_high", sa.Float(53)),
        sa.Column("ceiling", sa.Float(53)),
        sa.Column("margin", sa.Float(53)),
        sa.Column("verdict", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("required", sa.Boolean, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("started_at", sa.String(40)),
        sa.Column("duration_s", sa.Float(53)),
        sa.Column("conditions", sa.Text, nullable=False),
    )
    op.create_index("netperf_row_serial", "netperf_row", ["serial"])
    op.create_index("netperf_row_row_id", "netperf_row", ["row_id"])


def downgrade() -> None:
    """Back to nothing."""
    for table in ("netperf_row", "netperf_event", "netperf_device", "netperf_run"):
        op.drop_table(table)
