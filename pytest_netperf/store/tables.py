"""The tables of a store, as they are today; migrations/ has how they came to be. SQLAlchemy is imported here.

| table          | a line for each                                                                      |
| -------------- | ------------------------------------------------------------------------------------ |
| netperf_run    | run                                                                                  |
| netperf_device | device of a run; its verdict is that of its sheet, null until the run has ended well  |
| netperf_event  | line of a journal, by its number, with the SHA-256 of the line                       |
| netperf_row    | judged row among these, in columns; several attempts are several lines               |
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text

__all__ = ["DEVICE", "EVENT", "METADATA", "ROW", "RUN"]

METADATA = MetaData()


def _run_id() -> Column[str]:
    return Column("run_id", String(128), ForeignKey("netperf_run.run_id", ondelete="CASCADE"), primary_key=True)


RUN = Table(
    "netperf_run",
    METADATA,
    Column("run_id", String(128), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("started_at", String(40), nullable=False),
    Column("station", Text),
    Column("host", Text),
    Column("operator", Text),
    Column("finished_at", String(40)),
    Column("exit_status", Integer),
)
DEVICE = Table(
    "netperf_device",
    METADATA,
    _run_id(),
    Column("serial", Text, primary_key=True),
    Column("model", Text),
    Column("batch", Text),
    Column("started_at", String(40), nullable=False),
    Column("verdict", String(40)),
    Column("sheet_digest", String(64)),
    Index("netperf_device_serial", "serial", "started_at"),
    Index("netperf_device_model", "model", "started_at"),
    Index("netperf_device_batch", "batch"),
)
EVENT = Table(
    "netperf_event",
    METADATA,
    _run_id(),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("body", Text, nullable=False),
)
ROW = Table(
    "netperf_row",
    METADATA,
    _run_id(),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("row_id", Text, nullable=False),
    Column("serial", Text, nullable=False),
    Column("model", Text),
    Column("batch", Text),
    Column("test", Text, nullable=False),
    Column("link", Text),
    Column("quantity", Text, nullable=False),
    Column("statistic", Text),
    Column("unit", String(32), nullable=False),
    Column("value", Float(53)),
    Column("uncertainty", Float(53)),
    Column("limit_text", Text),
    Column("limit_low", Float(53)),
    Column("limit_high", Float(53)),
    Column("ceiling", Float(53)),
    Column("margin", Float(53)),
    Column("verdict", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("required", Boolean, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", String(40)),
    Column("duration_s", Float(53)),
    Column("conditions", Text, nullable=False),
    Index("netperf_row_serial", "serial"),
    Index("netperf_row_row_id", "row_id"),
)
