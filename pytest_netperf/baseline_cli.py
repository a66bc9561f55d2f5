"""``pytest-netperf baseline``: a golden device's sheet as baselines for others, and the baselines that are known."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_netperf.errors import ConfigError, QuantityError, RecordError

if TYPE_CHECKING:
    from pytest_netperf.record.schema import Row

__all__ = ["add_arguments", "run"]

_LARGEST_BYTES: Final = 512 * 2**20
_MAJOR: Final = 2
"""Schemas of sheets up to this one are understood."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    commands = parser.add_subparsers(dest="baseline_command", required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="make baselines of the PASS rows of a golden device's sheet")
    record.add_argument("sheet", type=Path, metavar="SHEET", help="sheet.json of the golden device")
    record.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write, never over a file; default: NAME.toml"
    )
    record.add_argument("--name", metavar="NAME", help="what limits call it; default: golden-SERIAL")
    known = commands.add_parser("list", help="print the baselines that a limit can name")
    known.add_argument("model", nargs="?", metavar="MODEL", help="only those of this model")
    known.add_argument("--baseline", type=Path, metavar="PATH", help="with those of this file or folder")


def run(asked: argparse.Namespace) -> int:
    """Run it. Returns 0, or 1 when there is nothing to record or list. Raises ConfigError and RecordError."""
    return _record(asked) if asked.baseline_command == "record" else _list(asked)


# ---- record ----------------------------------------------------------------------------------------------------------


def _record(asked: argparse.Namespace) -> int:
    sheet, rows, digest = _read(asked.sheet)
    device = sheet["device"]
    serial, model = str(device.get("serial") or ""), device.get("model")
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(
            f"{asked.sheet}: device {serial} has no model, so nobody could find its baselines; give it one in the "
            "bench file (model = ...) and measure again"
        )
    if sheet.get("complete") is not True:
        raise ConfigError(
            f"{asked.sheet}: this sheet is INCOMPLETE, so the device may be worse than its rows say; record one of a "
            "run that came to its own end"
        )
    run_id = sheet.get("run_id")
    name = asked.name if asked.name is not None else f"golden-{serial}".replace("/", "_")
    if not name.strip() or "/" in name or len(name) > 100 or not name.isprintable():
        raise ConfigError(f"--name {name!r}: must be a short text without a slash, such as golden")
    tables, left_out = _tables(rows, name, f"Sheet of {serial}, run {run_id}, sheet.json {digest[:16]}")
    for line in left_out:
        print(f"left out  {line}")
    if not tables:
        raise ConfigError(f"{asked.sheet}: no row of this sheet can be a baseline: only those that PASS are")
    simulated = sum("\nsimulated = true" in table for table in tables)
    head = [
        f"model = {_toml(model)}",
        f"source = {_toml(f'Golden device {serial}, run {run_id}, SHA-256 of sheet.json {digest}.')}",
        *([f"os = {_toml(firmware)}"] if isinstance(firmware := device.get("firmware"), str) and firmware else []),
    ]
    path = asked.output if asked.output is not None else Path(f"{name}.toml")
    text = "\n\n".join(["\n".join(head), *tables]) + "\n"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path}: there is something already; it is not overwritten, give another -o FILE") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    print(
        f"{path} is written: {len(tables)} baseline{'s' * (len(tables) != 1)} of {model}"
        f"{f', {simulated} of them SIMULATED' if simulated else ''}; use it with --netperf-baseline {path} and limits "
        f"such as '>= 95 % of baseline {name}'"
    )
    return 0


def _read(path: Path) -> tuple[dict[str, Any], list[Row], str]:
    """The sheet as it is written, its rows, and the SHA-256 of the file."""
    import msgspec

    from pytest_netperf.record.schema import Row
    from pytest_netperf.record.sheet_file import digest_of

    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise RecordError(f"{path}: larger than {_LARGEST_BYTES // 2**20} MiB, which no sheet is")
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        sheet = msgspec.json.decode(data)
        version = str(sheet["schema_version"])
        if int(version.partition(".")[0]) > _MAJOR:
            raise RecordError(
                f"{path}: its schema version is {version}, and this pytest-netperf reads {_MAJOR}; use a newer one"
            )
        if not isinstance(sheet["device"], dict):
            raise TypeError("device is no object")
        rows = msgspec.convert(sheet["rows"], list[Row])
        if sheet.get("digest") is not None and sheet["digest"] != digest_of(sheet):
            raise RecordError(
                f"{path}: this sheet was altered after it was written (its digest is not that of its contents); take "
                "the original, or make it again from its journal (pytest-netperf sheet)"
            )
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{path}: this is no sheet.json of pytest-netperf: {error}") from None
    return sheet, rows, hashlib.sha256(data).hexdigest()


def _tables(rows: list[Row], name: str, source: str) -> tuple[list[str], list[str]]:
    """A [[baseline]] table for each row that can be one, and a line for each other row."""
    from pytest_netperf.judge.verdict import Verdict

    found: dict[str, list[tuple[str, str]]] = {}
    left_out = []
    for row in rows:
        if row.verdict is not Verdict.PASS or row.value is None:
            left_out.append(f"{row.id}: {row.verdict.value}")
        elif not math.isfinite(row.value):
            left_out.append(f"{row.id}: {row.value} is no number to compare with")
        else:
            identity = "\n".join(_conditions(row))
            found.setdefault(f"{row.quantity} {row.statistic} {identity}", []).append(
                (row.id, _table(row, name, source))
            )
    for same in found.values():
        if len(same) > 1:
            left_out += [f"{id}: {len(same)} rows have the same test and conditions" for id, _ in same]
    return [same[0][1] for same in found.values() if len(same) == 1], left_out


def _table(row: Row, name: str, source: str) -> str:
    from pytest_netperf.quantities import format_value

    facts = row.evidence.facts
    lines = [
        "[[baseline]]",
        f"name = {_toml(name)}",
        f"test = {_toml(row.test)}",
        f"quantity = {_toml(row.quantity)}",
        f"value = {row.value!r}  # {format_value(row.value, row.unit) if row.value is not None else ''}",
        *([f"statistic = {_toml(row.statistic)}"] if row.statistic else []),
        *([f"uncertainty = {row.uncertainty!r}"] if row.uncertainty and math.isfinite(row.uncertainty) else []),
        *_conditions(row),
        *(["simulated = true"] if row.simulated else []),
    ]
    if isinstance(driver := facts.get("port_a_driver"), str):
        lines.append(f"driver = {_toml(driver)}")
    method = [str(facts[key]) for key in ("engine", "client_version") if key in facts]
    if isinstance(seconds := facts.get("asked_duration_s"), int | float):
        method.append(f"{seconds:g} s")
    if method:
        lines.append(f"method = {_toml(', '.join(method))}")
    return "\n".join([*lines, f"source = {_toml(f'{source}, row {row.id}')}"])


def _conditions(row: Row) -> Iterator[str]:
    """The conditions of a row as keys of a baseline, in the order in which they are documented."""
    from pytest_netperf.bench.baseline import CONDITIONS_OF_BASELINES
    from pytest_netperf.quantities import format_exact

    known = {**row.conditions, "link": row.link, "test_name": row.test.split("::", 1)[-1].split("[")[0]}
    for key in CONDITIONS_OF_BASELINES:
        value = known.get(key)
        if value is None:
            continue
        if key == "speed":
            yield f'speed = "{format_exact(float(value), "bit/s")}"'
        elif isinstance(value, bool):
            yield f"{key} = {str(value).lower()}"
        else:
            yield f"{key} = {value if isinstance(value, int) else _toml(str(value))}"


def _toml(text: str) -> str:
    """A basic string of TOML: that of JSON, but for the one control character that JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- list ------------------------------------------------------------------------------------------------------------


def _list(asked: argparse.Namespace) -> int:
    from pytest_netperf.bench.model_profile import load_baselines
    from pytest_netperf.judge.conditions import describe
    from pytest_netperf.quantities import format_value, get_quantity, near_misses

    known = load_baselines([] if asked.baseline is None else [asked.baseline])
    models = sorted({each.model for each in known})
    if asked.model is not None and asked.model not in models:
        raise ConfigError(
            f"there is no baseline of model {asked.model!r}{near_misses(asked.model, models)}; known: "
            f"{', '.join(models)}"
        )
    for each in known:
        if asked.model in (None, each.model):
            try:
                value = format_value(each.value, get_quantity(each.quantity).unit)
            except QuantityError:
                value = f"{each.value:g}"
            under = describe(tuple(sorted(each.conditions.items())))
            what = f"{each.statistic} {each.quantity}" if each.statistic else each.quantity
            simulated = "  SIMULATED" if each.simulated else ""
            print(f"{each.model}/{each.name}  {what}  {value}{f'  ({under})' if under else ''}{simulated}")
    return 0
