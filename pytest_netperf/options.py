"""The command line and the ini file, read into one frozen `Options`.

Precedence: the command line, then the ini file, then the default. A path of the command line is relative to the folder
in which pytest was called, a path of the ini file to pytest's rootdir. Loaded at each start of pytest, whether the
project uses this plugin or not: nothing heavy is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import pytest

from pytest_netperf.option_values import (
    Live,
    Text,
    Wrong,
    as_engine,
    as_folder,
    as_formats,
    as_live,
    as_name,
    as_path,
    as_profile,
    as_seconds,
    as_share,
    as_slots,
    as_store,
    as_switch,
)

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pytest_netperf.bench.model import Bench
    from pytest_netperf.report.form import SheetForm

__all__ = ["DEFAULT_OUTPUT", "DEFAULT_STORE", "Options", "add_options", "select_devices"]

Rule = Literal["simple", "guarded"]
Role = Literal["vendor", "buyer"]
Reference = Literal["auto", "now", "off"]

DEFAULT_OUTPUT: Final = "netperf-results"
DEFAULT_STORE: Final = "results.db"
"""Below the output folder."""
_MAX_DURATION_S = 86_400
_MAX_OMIT_S = 600

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")


def add_options(parser: pytest.Parser) -> None:
    """Declare the options of group "netperf" and their ini keys."""
    group = parser.getgroup("netperf", "network acceptance testing (pytest-netperf)")

    def option(name: str, ini: bool, metavar: str, text: str) -> None:
        group.addoption(f"--netperf-{name}", default=None, metavar=metavar, help=text)
        if ini:
            parser.addini(
                f"netperf_{name.replace('-', '_')}", f"{text} (the same as --netperf-{name})", type="string", default=""
            )

    option("bench", True, "FILE", "Bench file (TOML) with the devices and ports; without it, a simulated bench is used")
    group.addoption(
        "--netperf-device",
        action="append",
        default=None,
        metavar="SERIAL",
        help="Test only this device of the bench; may be given several times",
    )
    option("batch", True, "NAME", "Batch that is written on the acceptance sheets")
    option("operator", True, "NAME", "Operator who is written on the acceptance sheets")
    option("authoriser", True, "NAME", "Who authorises the acceptance sheets (ISO/IEC 17025), written on them")
    option("customer", True, "NAME", "Customer who is written on the acceptance sheets")
    option("suite", True, "NAME", "Test suite that is written on the acceptance sheets; default: name of the rootdir")
    option("suite-version", True, "TEXT", "Version of the test suite that is written on the acceptance sheets")
    option("limits", True, "FILE", "Limits file (TOML)")
    option("waivers", True, "FILE", "Waivers file (TOML): which failed rows of which devices are taken all the same")
    option(
        "baseline",
        True,
        "PATH",
        "Baselines of golden devices: a file (TOML), or a folder of them",
    )
    option("profiles", True, "DIR", "Profiles of models of your own (*.toml): their states and baselines")
    option("output", True, "DIR", f"Folder for journals and acceptance sheets; default: {DEFAULT_OUTPUT}")
    option("sheet", True, "FORMATS", "Files of each sheet: a list of html, pdf, csv, json; default: html,json")
    option("language", True, "TAG", "Language of the sheets: en (the default), ja, or one of --netperf-templates")
    option("templates", True, "DIR", "Folder with templates, texts and fonts of your own for the sheets")
    option("logo", True, "FILE", "Image (SVG, PNG, JPEG) at the head of each sheet")
    option(
        "store",
        True,
        "URL",
        "Database (SQLite, PostgreSQL) for a copy of each row; default: OUTPUT/results.db; off: none",
    )
    option("engine", True, "ENGINE", "What makes the traffic: iperf3, libiperf, or one of a plugin; default: iperf3")
    option("profile", True, "NAME", "How long and how often is measured: screening, type-test, soak, smoke or fixed")
    option(
        "duration", True, "TIME", "Traffic that counts, of each run, in whole seconds; default: 10, or the profile's"
    )
    option("omit", True, "TIME", "Traffic at the start that does not count, in whole seconds; default: 1, or as above")
    option("run-to-run", True, "SHARE", "Relative standard deviation from run to run that is known here, as in 0.5%%")
    option("history", True, "{on,off}", "Remember the spread of repeated runs for those that are not; default: on")
    option("live", True, "{auto,lines,off}", "Show long measurements while they run; default: auto")
    option("slots", True, "N", "Measurements that may run at the same time on this host; default: 1")
    option("rule", True, "{simple,guarded}", "How a value is compared with its limit; default: simple, no guard band")
    option("role", True, "{vendor,buyer}", "Of the guarded rule: who has to prove something, and has the guard band")
    group.addoption(
        "--netperf-reference",
        action="store_true",
        default=False,
        help="Measure now what this tester can do without the device, also when that of today is stored",
    )
    parser.addini(
        "netperf_reference",
        "Whether what the tester can do without the device is measured once a day: auto (the default) or off",
        type="string",
        default="",
    )
    group.addoption(
        "--netperf-job-summary",
        action="store_true",
        default=False,
        help="Add the sheets to the summary of the GitHub job (Markdown, into the file that GITHUB_STEP_SUMMARY names)",
    )
    group.addoption(
        "--netperf-keep",
        action="store_true",
        default=False,
        help="Keep the simulated links after the run as named network namespaces, and say how to enter and remove them",
    )
    group.addoption(
        "--netperf-allow-inconclusive",
        action="store_true",
        default=False,
        help="Exit with 0 also when the worst verdict is INCONCLUSIVE; the sheets still say NOT PROVEN",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for on the command line and in the ini file. Times in seconds."""

    bench: Path | None = None
    devices: tuple[str, ...] = ()
    """Serials; empty is every device of the bench."""
    batch: str | None = None
    operator: str | None = None
    authoriser: str | None = None
    customer: str | None = None
    suite: str | None = None
    """Name of the test suite, for the sheet; None: that of the rootdir."""
    suite_version: str | None = None
    limits: Path | None = None
    waivers: Path | None = None
    baseline: Path | None = None
    """File or folder of baselines, beside those of the bench file and the published ones."""
    profiles: Path | None = None
    """Folder with profiles of models, beside those of the bench file and the shipped ones."""
    output: Path = Path(DEFAULT_OUTPUT)
    sheet: tuple[str, ...] = ("html", "json")
    """Formats of each sheet (`report.form.FORMATS`), that for people first, always with json."""
    language: str = "en"
    """Language of the sheets."""
    templates: Path | None = None
    """Folder with templates, texts and fonts of the user's own."""
    logo: Path | None = None
    """Image at the head of each sheet."""
    store: URL | Path | None = None
    """Database, or SQLite file, that gets a copy of the journal while it is written."""
    engine: str = "iperf3"
    profile: str | None = None
    """Name of the profile (`judge.profile`); None: runs of a plain length."""
    duration_s: float | None = None
    """None: the profile's, or 10."""
    omit_s: float | None = None
    """None: the profile's, or 1."""
    run_to_run: float | None = None
    """Relative standard deviation from one run to the next, as it is declared."""
    history: bool = True
    """Whether this station remembers the spread of repeated runs, for those that are not repeated."""
    live: Live = "auto"
    """How running measurements are shown."""
    slots: int = 1
    rule: Rule = "simple"
    """Name of the decision rule (`judge.decision`)."""
    role: Role | None = None
    """Of rule ``guarded``, which always has one; None of ``simple``."""
    reference: Reference = "auto"
    """When the tester reference is measured: "auto" is once a day, "now" is by this run."""
    job_summary: Path | None = None
    """File of the summary of this CI job, when it is asked for."""
    keep: bool = False
    allow_inconclusive: bool = False

    @property
    def form(self) -> SheetForm:
        """In which form the sheets are written."""
        from pytest_netperf.report.form import SheetForm

        return SheetForm(formats=self.sheet, language=self.language, templates=self.templates, logo=self.logo)

    @classmethod
    def from_config(cls, config: pytest.Config) -> Options:
        """All options; pytest.UsageError lists every one that is wrong."""
        wrong: list[str] = []

        def read(name: str, convert: Callable[[Text], _Value], default: _Other) -> _Value | _Other:
            text = _text_of(config, name)
            if text is None:
                return default
            try:
                return convert(text)
            except Wrong as error:
                wrong.append(f"{_without_password(text.written_as)}: {error}")
                return default

        rule, role = _decision_rule(config, wrong)
        output = read("output", as_folder, config.invocation_params.dir / DEFAULT_OUTPUT)
        options = cls(
            bench=read("bench", as_path, None),
            devices=_serials(config.getoption("--netperf-device"), wrong),
            batch=read("batch", as_name, None),
            operator=read("operator", as_name, None),
            authoriser=read("authoriser", as_name, None),
            customer=read("customer", as_name, None),
            suite=read("suite", as_name, None),
            suite_version=read("suite-version", as_name, None),
            limits=read("limits", as_path, None),
            waivers=read("waivers", as_path, None),
            baseline=read("baseline", as_path, None),
            profiles=read("profiles", as_path, None),
            output=output,
            sheet=read("sheet", as_formats, ("html", "json")),
            language=read("language", lambda text: text.text.strip(), "en"),
            templates=read("templates", as_path, None),
            logo=read("logo", as_path, None),
            store=read("store", as_store, output / DEFAULT_STORE),
            engine=read("engine", lambda text: as_engine(text, config), "iperf3"),
            profile=read("profile", as_profile, None),
            duration_s=read("duration", lambda text: as_seconds(text, 1, _MAX_DURATION_S), None),
            omit_s=read("omit", lambda text: as_seconds(text, 0, _MAX_OMIT_S), None),
            run_to_run=read("run-to-run", as_share, None),
            history=read("history", as_switch, True),
            live=read("live", as_live, "auto"),
            slots=read("slots", as_slots, 1),
            rule=rule,
            role=role,
            reference=_reference(config, wrong),
            job_summary=_job_summary(config, wrong),
            keep=bool(config.getoption("--netperf-keep")),
            allow_inconclusive=bool(config.getoption("--netperf-allow-inconclusive")),
        )
        if options.keep:
            wrong += _cannot_keep()
        wrong += _cannot_make_sheets(config, options)
        if wrong:
            raise pytest.UsageError("\n".join(wrong))
        return options


def select_devices(options: Options, bench: Bench) -> tuple[str, ...]:
    """The serials that this run tests, in the order of the bench; pytest.UsageError for one that is not on it."""
    known = [device.serial for device in bench.devices]
    unknown = [serial for serial in options.devices if serial not in known]
    if unknown:
        from pytest_netperf.quantities import near_misses

        where = bench.path if bench.path is not None else "the built-in bench (no --netperf-bench was given)"
        raise pytest.UsageError(
            "\n".join(
                f"--netperf-device {serial}: there is no such device on {where}; known: {', '.join(known)}"
                f"{near_misses(serial, known)}"
                for serial in unknown
            )
        )
    return tuple(serial for serial in known if serial in options.devices) if options.devices else tuple(known)


def _text_of(config: pytest.Config, name: str) -> Text | None:
    given = config.getoption(f"--netperf-{name}")
    if given is not None:
        return Text(str(given), f"--netperf-{name} {given!s}".rstrip(), config.invocation_params.dir)
    key = f"netperf_{name}".replace("-", "_")
    text = str(config.getini(key) or "")
    # An ini key that is present but empty means "not set", as for pytest's own keys.
    return Text(text, f"{key} = {text} (ini file)", config.rootpath) if text.strip() else None


def _serials(given: Sequence[str] | None, wrong: list[str]) -> tuple[str, ...]:
    if any(not serial.strip() for serial in given or ()):
        wrong.append("--netperf-device: the serial is empty; give one, or leave the option away to test every device")
    return tuple(dict.fromkeys(given or ()))


def _decision_rule(config: pytest.Config, wrong: list[str]) -> tuple[Rule, Role | None]:
    """Rule and role, which make sense together or not at all."""
    rule, role = _text_of(config, "rule"), _text_of(config, "role")
    if rule is None and role is None:
        return "simple", None
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.judge.decision import RULES, get_rule

    if (
        role is not None
        and config.getoption("--netperf-rule") == "simple"
        and config.getoption("--netperf-role") is None
    ):
        role = None  # the command line wins over the ini file, whose role belongs to the ini file's rule
    try:
        found = get_rule(rule.text if rule is not None else "simple", role.text if role is not None else None)
    except ConfigError as error:
        known = rule is None or rule.text in RULES
        at = role if role is not None and known else rule
        assert at is not None
        way_out = ""
        if role is None and known:
            way_out = " Add --netperf-role vendor or --netperf-role buyer."
        elif rule is None or rule.text == "simple":
            way_out = " Add --netperf-rule guarded, or leave the role away."
        wrong.append(f"{at.written_as}: {error}{way_out}")
        return "simple", None
    return found.name, found.role


def _reference(config: pytest.Config, wrong: list[str]) -> Reference:
    text = str(config.getini("netperf_reference") or "").strip()
    if text not in ("", "auto", "off"):
        wrong.append(
            f"netperf_reference = {text} (ini file): must be auto or off; to measure it now, use --netperf-reference"
        )
    if config.getoption("--netperf-reference"):
        return "now"
    return "off" if text == "off" else "auto"


def _job_summary(config: pytest.Config, wrong: list[str]) -> Path | None:
    if not config.getoption("--netperf-job-summary"):
        return None
    name = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not name:
        wrong.append(
            "--netperf-job-summary: GITHUB_STEP_SUMMARY names no file, so this is no GitHub job; leave it out, "
            "or use 'pytest-netperf export --format markdown'"
        )
    return Path(name) if name else None


def _cannot_keep() -> list[str]:
    from pytest_netperf.links.kernel import has_capabilities

    if has_capabilities():
        return []
    return ["--netperf-keep: names network namespaces under /run/netns, which needs root; run as root, or leave it out"]


def _cannot_make_sheets(config: pytest.Config, options: Options) -> list[str]:
    """What is missing for the sheets that were asked for: said now, and not after an hour of measuring."""
    given = [_text_of(config, name) for name in ("sheet", "language", "templates", "logo")]
    written = [text.written_as for text in given if text is not None]
    if not written:
        return []
    from pytest_netperf.errors import ConfigError
    from pytest_netperf.report.form import check_form

    try:
        check_form(options.form)
    except ConfigError as error:
        return [f"{', '.join(written)}: {error}"]
    return []


def _without_password(text: str) -> str:
    from pytest_netperf.store.database import hide_password

    return hide_password(text)
