"""``pytest-netperf judge``: recorded series, or all rows of a journal, judged again without traffic."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import ConfigError, LimitError, NetperfError, RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_netperf.judge.decision import DecisionRule
    from pytest_netperf.judge.limits import ResolvedLimit
    from pytest_netperf.judge.profile import Profile
    from pytest_netperf.judge.replay import Rejudged
    from pytest_netperf.judge.series import SeriesVerdict
    from pytest_netperf.judge.statistics import Sample

__all__ = ["SERIES_KEYS", "add_arguments", "run"]

_LARGEST_BYTES = 64 * 2**20
_SERIES_ONLY = ("limit", "profile", "link_speed", "mtu", "omit", "between_run")

SERIES_KEYS = (
    "file", "verdict", "seconds_used", "value_bps", "uncertainty_bps", "n_eff", "margin", "stopped_early",
    "time_saved_s", "doubts", "reason", "limit", "rule",
)  # fmt: skip
"""The keys of each object of ``judge --series --json``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("journal", nargs="?", type=Path, metavar="JOURNAL", help="judge every row of a journal again")
    parser.add_argument("--limits", type=Path, metavar="FILE", help="with JOURNAL: the limits file to judge against")
    parser.add_argument(
        "--baseline", type=Path, metavar="PATH", help="with JOURNAL: baselines of your own, a file or a folder"
    )
    parser.add_argument(
        "--series", nargs="+", type=Path, metavar="FILE", help="CSV files, header seconds,bits, one interval a line"
    )
    parser.add_argument("--limit", metavar="LIMIT", help="with --series: such as '>= 2.3 Gbps'")
    parser.add_argument("--profile", metavar="NAME", help="screening (default), type-test, soak, smoke or fixed")
    parser.add_argument("--rule", default="simple", metavar="NAME", help="simple (default) or guarded")
    parser.add_argument("--role", metavar="NAME", help="of the guarded rule: vendor or buyer")
    parser.add_argument("--link-speed", metavar="SPEED", help="such as 2.5G: makes the ceiling known")
    parser.add_argument("--mtu", metavar="BYTES", help="MTU of the link, 1500 by default")
    parser.add_argument("--omit", metavar="SECONDS", help="seconds at the start that do not count")
    parser.add_argument("--between-run", metavar="RATIO", help="known standard deviation from run to run: '0.1 %%'")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of text")


def run(asked: argparse.Namespace) -> int:
    """Do what was asked. Returns 0 when everything is PASS, 1 when not; a NetperfError is wrong use."""
    from pytest_netperf.judge.decision import get_rule

    rule = get_rule(asked.rule, asked.role)
    if (asked.journal is None) == (asked.series is None):
        raise ConfigError(
            "judge needs either a JOURNAL with --limits FILE, or --series FILE... with --limit; "
            f"{'both were' if asked.series else 'neither was'} given."
        )
    if asked.series is not None:
        if asked.limits is not None:
            raise ConfigError("--limits belongs to a JOURNAL; a series is judged against --limit '>= 2.3 Gbps'.")
        if asked.baseline is not None:
            raise ConfigError("--baseline belongs to a JOURNAL; a series has no baseline.")
        return _judge_series(asked, rule)
    given = [name for name in _SERIES_ONLY if getattr(asked, name) is not None]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"{names} belongs to --series; a journal is judged against --limits FILE.")
    if asked.limits is None:
        raise ConfigError("a journal is judged against a limits file: add --limits FILE.")
    return _judge_journal(asked.journal, asked.limits, asked.baseline, rule, as_json=asked.json)


# ---- series ----------------------------------------------------------------------------------------------------------


def _judge_series(asked: argparse.Namespace, rule: DecisionRule) -> int:
    from dataclasses import replace

    from pytest_netperf.judge.profile import get_profile
    from pytest_netperf.judge.series import judge_series
    from pytest_netperf.judge.statistic import MEAN
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.quantities import parse_duration, parse_ratio

    profile = get_profile("screening" if asked.profile is None else asked.profile)
    if asked.omit is not None:
        profile = replace(profile, omit_s=parse_duration(asked.omit))
    bound_bps, where = _ceiling(asked)
    limit = _limit(asked, bound_bps, where)
    if profile.sequential and limit.statistic != MEAN:
        raise ConfigError(
            f"profile {profile.name} ends a run as soon as its mean decides: only the mean is judged sequentially. "
            f"A limit on {limit.statistic.text} needs the whole run: add --profile fixed (or type-test, soak, smoke)."
        )
    between = None if asked.between_run is None else parse_ratio(asked.between_run)
    series = _read_series(asked.series)
    if between is None and profile.repetitions > 1:
        between = _spread(list(series.values()))
    verdicts = {
        name: judge_series(samples, limit, profile, rule, bound_bps=bound_bps, declared_between=between)
        for name, samples in series.items()
    }
    if asked.json:
        print(_json([_as_object(name, verdict, limit, rule) for name, verdict in verdicts.items()]))
    else:
        for name, verdict in verdicts.items():
            print(_as_text(name, verdict))
        print(_footer(limit, profile, rule, [verdict.verdict is Verdict.PASS for verdict in verdicts.values()]))
    return 0 if all(verdict.verdict is Verdict.PASS for verdict in verdicts.values()) else 1


def _ceiling(asked: argparse.Namespace) -> tuple[float | None, str]:
    """TCP/IPv4 goodput ceiling of the link in bit/s, and the link in words; None without a link speed."""
    from pytest_netperf.physics import goodput_ceiling_bps
    from pytest_netperf.quantities import format_speed, parse_speed
    from pytest_netperf.units import parse_size

    if asked.link_speed is None:
        if asked.mtu is not None:
            raise ConfigError("--mtu alone says nothing about the ceiling: add --link-speed, such as 2.5G.")
        return None, ""
    speed_bps = parse_speed(asked.link_speed)
    mtu = 1500 if asked.mtu is None else parse_size(int(asked.mtu) if asked.mtu.strip().isdecimal() else asked.mtu)
    return goodput_ceiling_bps(speed_bps, mtu), f"a {format_speed(speed_bps)} link at MTU {mtu}"


def _limit(asked: argparse.Namespace, ceiling_bps: float | None, where: str) -> ResolvedLimit:
    from pytest_netperf.judge.limit_text import parse_limit
    from pytest_netperf.judge.limits import check_possible, resolve
    from pytest_netperf.quantities import parse_speed

    if asked.limit is None:
        raise ConfigError("a series is judged against a limit: add --limit, such as '>= 2.3 Gbps'.")
    limit = parse_limit("throughput", asked.limit, source="command line")
    for warning in limit.warnings:
        print(f"pytest-netperf: warning: {warning}", file=sys.stderr)
    if limit.statistic.kind == "runs":
        raise LimitError(
            f"{asked.limit!r}: a series is one run, and each file is judged by itself; count the PASS of several "
            "files, or judge the journal of a test with repeat=."
        )
    if limit.relative_to is not None and limit.relative_to.startswith("baseline"):
        raise LimitError(f"{asked.limit!r}: a series has no baseline; give a number, or 'of ceiling'.")
    if limit.relative_to is not None and asked.link_speed is None:
        raise LimitError(f"{asked.limit!r}: the {limit.relative_to} is not known here; add --link-speed and --mtu.")
    speed_bps = None if asked.link_speed is None else parse_speed(asked.link_speed)
    resolved = resolve(limit, ceiling=ceiling_bps, link_speed=speed_bps)
    impossible = check_possible(resolved, ceiling_bps, of=where)
    if impossible is not None:
        raise LimitError(impossible)
    return resolved


def _read_series(paths: Sequence[Path]) -> dict[str, list[Sample]]:
    """All files, or one RecordError with what is wrong in each of them."""
    from pytest_netperf.judge.replay import parse_series

    read: dict[str, list[Sample]] = {}
    mistakes = []
    for path in paths:
        try:
            read[str(path)] = parse_series(_text(path), str(path))
        except RecordError as error:
            mistakes.append(str(error))
    if mistakes:
        raise RecordError("\n".join(mistakes))
    return read


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise RecordError(f"{path}: the file cannot be read ({why}).") from None
    if len(content) > _LARGEST_BYTES:
        raise RecordError(f"{path}: larger than {_LARGEST_BYTES // 2**20} MiB, which no series is.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RecordError(f"{path}, line {line}: not UTF-8 text; expected a CSV file.") from None


def _spread(series: list[list[Sample]]) -> float | None:
    """Relative standard deviation of the values of repeated runs; None for a single one."""
    from statistics import mean, stdev

    from pytest_netperf.judge.statistics import mean_rate_bps, small_sample_factor

    if len(series) < 2:
        return None
    values = [mean_rate_bps(samples) for samples in series]
    return stdev(values) / mean(values) * small_sample_factor(len(values)) if mean(values) > 0 else None


def _as_object(name: str, verdict: SeriesVerdict, limit: ResolvedLimit, rule: DecisionRule) -> dict[str, Any]:
    values = (
        name,
        verdict.verdict.value,
        round(verdict.seconds_used, 6),
        verdict.value_bps,
        None if verdict.uncertainty is None else verdict.uncertainty.expanded_bps,
        verdict.n_eff,
        verdict.margin,
        verdict.stopped_early,
        round(verdict.time_saved_s, 6),
        list(verdict.doubts),
        verdict.reason,
        limit.text,
        rule.name if rule.role is None else f"{rule.name} ({rule.role})",
    )
    return dict(zip(SERIES_KEYS, values, strict=True))


def _as_text(name: str, verdict: SeriesVerdict) -> str:
    from pytest_netperf.quantities import format_value

    lines = [f"{verdict.verdict.value}  {name}", f"    {verdict.reason}"]
    if verdict.value_bps is not None and verdict.uncertainty is None:
        margin = f", margin {verdict.margin * 100:+.2f} %" if verdict.margin is not None else ""
        lines.append(f"    value {format_value(verdict.value_bps, 'bit/s')}, U not known{margin}")
    elif verdict.value_bps is not None and verdict.uncertainty is not None and verdict.n_eff is not None:
        parts = verdict.uncertainty
        between = "not known" if parts.between_bps is None else format_value(parts.between_bps, "bit/s", 2)
        lines.append(
            f"    value {format_value(verdict.value_bps, 'bit/s')}, U {format_value(parts.expanded_bps, 'bit/s', 2)} "
            f"(k = 2; within the run {format_value(parts.within_bps, 'bit/s', 2)}, between runs {between}, "
            f"resolution {format_value(parts.resolution_bps, 'bit/s', 2)}), n_eff {verdict.n_eff:.1f}"
            + (f", margin {verdict.margin * 100:+.2f} %" if verdict.margin is not None else "")
        )
    saved = f", {verdict.time_saved_s:.4g} s saved" if verdict.stopped_early else ""
    lines.append(f"    {verdict.seconds_used:.4g} s used{saved}")
    lines += [f"    doubt: {doubt}" for doubt in verdict.doubts]
    lines += [f"    next: {verdict.next_step}"] if verdict.next_step else []
    return "\n".join(lines)


def _footer(limit: ResolvedLimit, profile: Profile, rule: DecisionRule, passed: list[bool]) -> str:
    from pytest_netperf.judge.assessment import risk_of

    return (
        f"{sum(passed)} of {len(passed)} series PASS; limit {limit.text}, profile {profile.name}\n"
        f"rule {rule.text}. {risk_of(rule, limit.statistic)}"
    )


# ---- journals --------------------------------------------------------------------------------------------------------


def _judge_journal(path: Path, limits_path: Path, baseline: Path | None, rule: DecisionRule, *, as_json: bool) -> int:
    from pytest_netperf.bench.model_profile import load_baselines
    from pytest_netperf.judge.baselines import Baselines
    from pytest_netperf.judge.limits_file import parse_limits_file
    from pytest_netperf.judge.replay import judge_rows
    from pytest_netperf.judge.verdict import Verdict
    from pytest_netperf.record.journal_reader import read_journal

    try:
        limits = parse_limits_file(_text(limits_path), str(limits_path))
    except RecordError as error:
        raise LimitError(str(error)) from None
    baselines = Baselines(load_baselines([] if baseline is None else [baseline]))
    contents = read_journal(path)
    for note in contents.notes:
        print(f"note: {note}", file=sys.stderr)
    judged = _together(judge_rows(contents.rows, limits, rule, source=str(limits_path), baselines=baselines))
    if as_json:
        print(_json([_row_object(each) for each in judged]))
    else:
        for each in judged:
            print(_row_text(each, rule))
        print(f"{sum(each.old is not each.new for each in judged)} of {len(judged)} rows changed; rule {rule.text}.")
    missing = {plan.id for plan in contents.planned if plan.selected} - {row.id for row in contents.rows}
    for name in sorted(missing):
        print(f"note: {name} was expected and never arrived.", file=sys.stderr)
    required = [each.new for each in judged if each.row.required and each.new is not Verdict.NOT_APPLICABLE]
    proven = bool(required) and all(verdict is Verdict.PASS for verdict in required)
    return 0 if proven and contents.complete and not missing else 1


def _together(judged: list[Rejudged]) -> list[Rejudged]:
    """With what the rows of each device say of one another, as on its sheet."""
    from dataclasses import replace

    from pytest_netperf.record.together import together

    found: dict[int, Rejudged] = {}
    for serial in {each.row.device.serial for each in judged}:
        own = [(place, each) for place, each in enumerate(judged) if each.row.device.serial == serial]
        for (place, each), row in zip(own, together([each.again for _, each in own]), strict=True):
            found[place] = replace(each, new=row.verdict, reason=row.reason, again=row)
    return [found[place] for place in range(len(judged))]


def _row_object(judged: Rejudged) -> dict[str, Any]:
    row = judged.row
    return {
        "id": judged.id,
        "device": row.device.serial,
        "attempt": row.attempt,
        "quantity": row.quantity,
        "statistic": judged.statistic,
        "unit": row.unit,
        "value": judged.value,
        "old_limit": None if judged.old is None else row.limit,
        "old_verdict": None if judged.old is None else judged.old.value,
        "limit": judged.limit,
        "rule": judged.rule,
        "verdict": judged.new.value,
        "margin": judged.margin,
        "reason": judged.reason,
        "required": row.required,
    }


def _row_text(judged: Rejudged, usual: DecisionRule) -> str:
    mark = " " if judged.old is judged.new else "*"
    old = "(new)" if judged.old is None else judged.old.value
    rule = f" Rule {judged.rule}." if judged.rule not in (None, usual.name_and_role) else ""
    return f"{mark} {old} -> {judged.new.value}  {judged.row.device.serial}  {judged.id}\n      {judged.reason}{rule}"


def _json(objects: list[dict[str, Any]]) -> str:
    try:
        return json.dumps(objects, indent=2, allow_nan=False)
    except ValueError as error:  # a journal may hold what a test recorded
        raise NetperfError(f"a value cannot be written as JSON: {error}") from None
