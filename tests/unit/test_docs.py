"""The documentation is held against the code: its examples are run or read, its tables are those of the code.

A fenced block says by its first line what it is:

    python test           collected by pytest on the built-in bench
    python test bench     collected by pytest on the last `toml bench` block of the page
    python conftest       loaded as a conftest.py
    python run            run as a script
    python                compiled
    toml bench, limits, waivers    read by the parser of that file
    toml                lines of such a file, valid TOML
    ini                   an ini file whose netperf_ keys exist
    console               lines behind "$ " are commands whose netperf options exist
    json                  valid JSON
    yaml                  a part of a file in conftest_examples
    text                  anything else
"""

from __future__ import annotations

import argparse
import configparser
import inspect
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
import pytest

from pytest_netperf import cli, hookspecs, options
from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.errors import BenchError, ConfigError
from pytest_netperf.fixtures import Iperf3
from pytest_netperf.judge.conditions import CONDITION_KEYS
from pytest_netperf.judge.limit_text import is_limit_text, parse_limit
from pytest_netperf.judge.limits_file import parse_limits_file
from pytest_netperf.judge.method import DURATION_S, OMIT_S
from pytest_netperf.judge.values import TRAFFIC_QUANTITIES
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.links.link import Endpoint, Link
from pytest_netperf.links.process import Process
from pytest_netperf.marks import _REQUIREMENTS, _SETTINGS
from pytest_netperf.observe.measure import Measurement
from pytest_netperf.quantities import parse_duration, parse_value, quantities
from pytest_netperf.record import schema
from pytest_netperf.record.waivers import parse_waivers
from pytest_netperf.report.schema import sheet_fields_text
from pytest_netperf.units import read

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("conftest_examples/*/*.md")])
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: str
    text: str
    bench: str | None
    """The last bench file on the page before it."""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    bench = None
    for match in _FENCE.finditer(text):
        info = match["info"].strip()
        yield Block(page, text.count("\n", 0, match.start()) + 1, info, match["text"], bench)
        if info == "toml bench":
            bench = match["text"]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    found = [pytest.param(block, id=block.where) for block in BLOCKS if block.info in kinds]
    return pytest.mark.parametrize("block", found)


def read_page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def tables(name: str, heading: str | None = None) -> list[list[str]]:
    """The rows of all tables of a page (or of one section), header rows and rulers left out."""
    text = read_page(name)
    if heading is not None:
        match = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", text, re.MULTILINE | re.DOTALL)
        assert match is not None, f"{name} has no section {heading!r}"
        text = match[2]
    lines = text.splitlines()
    rows = []
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("| ---") and not below.startswith("| ---"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
    return rows


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def first_codes(name: str, heading: str | None = None) -> list[str]:
    return [code for row in tables(name, heading) for code in codes(row[0])]


# ---- examples --------------------------------------------------------------------------------------------------------

KINDS = {
    "python test", "python test bench", "python conftest", "python run", "python", "toml bench", "toml limits",
    "toml waivers", "toml", "ini",
    "console", "json", "yaml", "text",
}  # fmt: skip


def test_every_block_says_what_it_is() -> None:
    assert {block.where: block.info for block in BLOCKS if block.info not in KINDS} == {}


def test_examples_of_every_kind_are_found() -> None:
    assert {block.info for block in BLOCKS} >= KINDS - {"text"}


@of_kind("python", "python test", "python test bench", "python conftest", "python run")
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.where, "exec")


@of_kind("python run")
def test_python_runs(block: Block) -> None:
    exec(compile(block.text, block.where, "exec"), {"__name__": "example"})


def test_python_tests_are_collected(tmp_path: Path) -> None:
    """All of them, in one run for each bench; the collection refuses wrong marks, limits and links."""
    folders: dict[str | None, Path] = {}
    expected: dict[Path, set[str]] = {}
    for number, block in enumerate(block for block in BLOCKS if block.info.startswith("python test")):
        bench = block.bench if block.info.endswith("bench") else None
        assert bench or not block.info.endswith("bench"), f"{block.where}: no bench file stands above it"
        folder = folders.setdefault(bench, tmp_path / f"bench{len(folders)}")
        folder.mkdir(exist_ok=True)
        if bench:
            (folder / "bench.toml").write_text(bench)
        path = folder / f"test_{number}_{block.page.stem.replace('-', '_').replace('.', '_')}.py"
        path.write_text(block.text)
        expected.setdefault(folder, set()).add(path.name)
    for bench, folder in folders.items():
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-qq", "--rootdir=."]
            + (["--netperf-bench=bench.toml"] if bench else [])
            + ["-W", "error"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        counts = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if re.search(r"\.py: \d+$", line))
        assert set(counts) == expected[folder]
        assert all(int(count) > 0 for count in counts.values())


@pytest.fixture
def own_quantities(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_netperf import quantities as module

    monkeypatch.setattr(module, "_REGISTRY", dict(module._REGISTRY))


@of_kind("python conftest")
@pytest.mark.usefixtures("own_quantities")
def test_conftest_loads_and_its_hooks_fit(block: Block) -> None:
    names: dict[str, object] = {"__name__": "conftest"}
    exec(compile(block.text, block.where, "exec"), names)
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    plugin = type("Conftest", (), {name: staticmethod(value) for name, value in names.items() if callable(value)})
    manager.register(plugin())  # refuses arguments that a hook does not have
    manager.check_pending()  # refuses hooks that do not exist


def test_the_meter_of_a_page_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """custom-probe.md: its probe, with a meter that answers on this machine."""
    (block,) = (block for block in BLOCKS if block.page.name == "custom-probe.md" and "MEAS:POW" in block.text)
    names: dict[str, object] = {"__name__": "conftest"}
    exec(compile(block.text, block.where, "exec"), names)
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as meter:

        def answer() -> None:
            connection, _ = meter.accept()
            with connection:
                if connection.recv(100) == b"MEAS:POW?\n":
                    connection.sendall(b"13.5\n")

        monkeypatch.setattr(socket, "create_connection", lambda _, **words: connect(meter.getsockname(), **words))
        thread = threading.Thread(target=answer)
        thread.start()
        (probe,) = names["pytest_netperf_probes"](None, None)
        assert probe.read() == 13.5
        thread.join(10)


@of_kind("toml bench")
def test_bench_file_is_accepted(block: Block) -> None:
    assert parse_bench(block.text, block.where).devices


@of_kind("toml waivers")
def test_waivers_files_are_read(block: Block) -> None:
    assert parse_waivers(block.text, block.where)


@of_kind("toml")
def test_lines_of_a_file_are_toml(block: Block) -> None:
    assert tomllib.loads(block.text)


@of_kind("toml limits")
def test_limits_file_is_accepted(block: Block) -> None:
    assert parse_limits_file(block.text, block.where)


@of_kind("ini")
def test_ini_keys_exist(block: Block) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(block.text)
    keys = set(parser["pytest"])
    assert {key for key in keys if key.startswith("netperf")} <= set(declared().ini), block.where


@of_kind("json")
def test_json_is_valid(block: Block) -> None:
    json.loads(block.text)


@of_kind("yaml")
def test_yaml_is_that_of_an_example(block: Block) -> None:
    assert [path.name for path in ROOT.glob("conftest_examples/*/*.yml") if block.text in path.read_text("utf-8")]


@of_kind("console")
def test_commands_use_options_that_exist(block: Block) -> None:
    commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    assert commands, f"{block.where}: no line begins with '$ '"
    for command in commands:
        words = [word for word in shlex.split(command) if word != "sudo"]
        for word in words[1:]:
            if word.startswith("--netperf"):
                assert word.split("=")[0] in declared().options, f"{block.where}: {word}"
        if words[0] == "pytest-netperf":
            command_line(*words[1:])


@of_kind("text")
def test_messages_that_are_shown_are_real(block: Block) -> None:
    """Of the error messages that a page shows, this one can be made again."""
    if "bench.toml: device[0]" not in block.text:
        return
    with pytest.raises(BenchError) as error:
        parse_bench(
            '[[device]]\nserial = "A"\n[[device.link]]\nname = "p"\nspeed = 2.5\nsimulatd = true\n', "bench.toml"
        )
    for line in block.text.replace("ERROR: ", "").replace("...", "").splitlines():
        assert line.strip() in str(error.value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text("utf-8")), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name} links to {target}"


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / target).resolve() for target in _LINK.findall(read_page("README.md"))}
    assert {path for path in linked if path.suffix == ".md"} == {
        page for page in PAGES if DOCS in page.parents and page != DOCS / "README.md"
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_path_of_one_machine(page: Path) -> None:
    assert not re.search(r"(?<![\w.])/(home|root|work|tmp)/", page.read_text("utf-8"))


# ---- tables ----------------------------------------------------------------------------------------------------------


class Declared:
    """Takes the place of pytest's parser, and remembers what was declared."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.ini: list[str] = []

    def getgroup(self, *_: str) -> Declared:
        return self

    def addoption(self, name: str, **_: object) -> None:
        self.options.append(name)

    def addini(self, name: str, *_: object, **__: object) -> None:
        self.ini.append(name)


def declared() -> Declared:
    parser = Declared()
    options.add_options(parser)
    return parser


def test_options() -> None:
    rows = tables("reference/options.md")
    assert [codes(row[0])[0].split()[0] for row in rows] == declared().options
    assert [code for row in rows for code in codes(row[1])] == declared().ini
    for option, ini, *_ in rows:
        key = codes(option)[0].split()[0].replace("--", "").replace("-", "_")
        assert codes(ini) in ([key], [])
    documented = {codes(row[0])[0].split()[0]: codes(row[2]) for row in rows}
    defaults = options.Options()
    assert documented["--netperf-output"] == [str(defaults.output)]
    assert documented["--netperf-engine"] == [defaults.engine]
    assert documented["--netperf-duration"] == [f"{DURATION_S:g}"]
    assert documented["--netperf-omit"] == [f"{OMIT_S:g}"]
    assert documented["--netperf-slots"] == [str(defaults.slots)]
    assert len(fields(options.Options)) == len(rows)


def test_arguments_of_netperf_link() -> None:
    assert sorted(first_codes("reference/marks.md", "netperf_link")) == sorted([*_REQUIREMENTS, *_SETTINGS])


def test_condition_keys() -> None:
    assert first_codes("reference/limits.md", "Conditions") == list(CONDITION_KEYS)


def test_forms_of_limits() -> None:
    texts = [codes(row[1])[0].strip('"') for row in tables("reference/limits.md", "Limits")]
    assert len(texts) == 10
    for text in texts:
        assert is_limit_text(text)
        parse_limit("retransmits" if text == "<= 50" else "throughput", text)


def test_quantities() -> None:
    known = quantities()
    documented = [(codes(row[0])[0], *row[1:4]) for row in tables("reference/quantities.md")]
    ours = [(each.name, each.unit, each.better, each.description) for each in known]
    assert documented == ours[: len(documented)], "other tests may have registered more behind them"
    assert not {name for name, *_ in ours[len(documented) :]} & {"throughput", "power", "carrier_changes"}
    by_traffic = {codes(row[0])[0] for row in tables("reference/quantities.md") if "netperf_record" not in row[4]}
    assert by_traffic == TRAFFIC_QUANTITIES
    aliases = {alias for each in known[: len(documented)] for alias in each.aliases}
    assert all(f"`{alias}` is another name of" in read_page("reference/quantities.md") for alias in aliases)


def test_units() -> None:
    for written, value, unit in tables("reference/units.md"):
        text = codes(written)[0]
        assert read(text, unit) == float(value), text
    assert parse_duration("0.5 min") == 30
    for refused in ("9.8", "2.3 GBps"):
        assert refused in read_page("reference/units.md")
        with pytest.raises(ConfigError):
            parse_value(refused, "throughput")


def test_verdicts() -> None:
    of_row = [row for row in tables("reference/verdicts.md", "Of a row") if len(row) == 4]
    assert {row[0] for row in of_row} == {verdict.value for verdict in Verdict}
    assert len(of_row) == len(Verdict)
    assert [row[0] for row in tables("reference/verdicts.md", "Of a device")] == [
        verdict.value for verdict in DeviceVerdict
    ]
    assert all(all(row) for row in of_row), "each verdict says what it means and what to do next"


def test_exit_codes_of_commands() -> None:
    documented = {codes(row[0])[0]: bool(row[2]) for row in tables("reference/exit-codes.md", "pytest-netperf")}
    assert documented == {command.name: bool(command.bad) for command in cli._COMMANDS}


def test_exit_codes_of_pytest() -> None:
    documented = first_codes("reference/exit-codes.md", "pytest")
    ours = [f"{code:d}" for code in pytest.ExitCode]
    assert documented[: len(ours)] == ours  # pytest 8 does not have the last one
    assert len(documented) == 7


@pytest.mark.parametrize("call", ["tcp", "udp"])
def test_arguments_of_traffic_calls(call: str) -> None:
    text = read_page("reference/fixtures.md")
    section = text[text.index(f"`iperf3.{call}(...)`") :]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section.split("\n\n")[1], re.MULTILINE)
    parameters = inspect.signature(getattr(Iperf3, call)).parameters
    ours = {name: each.default for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    assert {name for name, _ in rows} == set(ours)
    for name, shown in rows:
        if re.fullmatch(r"`[^`-]+`", shown):
            assert shown.strip("`").strip('"') == str(ours[name])
        else:
            assert ours[name] is None, f"{name}: the page says {shown}"


def test_names_of_the_link_and_its_ends() -> None:
    text = read_page("reference/fixtures.md")
    link, endpoint = (
        [code for row in table for code in codes(row[0])]
        for table in (
            [row for row in tables("reference/fixtures.md", "netperf_link") if row[0].startswith(prefixes)]
            for prefixes in (
                ("`a`", "`speed`", "`mtu`", "`ceiling", "`simulated`", "`counters"),
                ("`interface`", "`address`", "`run(", "`popen(", "`socket(", "`is_listening("),
            )
        )
    )
    assert len(link) == 7
    assert len(endpoint) == 9
    for owner, names in ((Link, link), (Endpoint, endpoint)):
        source = inspect.getsource(owner)
        for name in names:
            bare = name.split("(")[0]
            assert hasattr(owner, bare) or f"self.{bare}" in source, name
    for name in re.findall(r"has `(.*?)`, `stdout`", text):
        assert hasattr(Process, name.split("(")[0])
    assert all(hasattr(Process, name) for name in ("wait", "stdout", "stderr", "send_signal", "end"))
    for field in msgspec.structs.fields(Measurement):
        assert f"`{field.name}`" in text


def _known_keys(document: str, place: str) -> list[str]:
    """The keys of a table of a bench file, from the message about one that does not exist."""
    with pytest.raises(BenchError) as error:
        parse_bench(document, "bench")
    (line,) = (line for line in str(error.value).splitlines() if line.startswith(f"bench: {place}"))
    return line.rpartition("known here: ")[2].split(", ")


@pytest.mark.parametrize(
    ("heading", "document", "place"),
    [
        ("[station]", "[station]\nzzz = 1", "station.zzz"),
        ("[[device]]", "[[device]]\nzzz = 1", "device[0].zzz"),
        ("[[device.link]]", "[[device]]\n[[device.link]]\nzzz = 1", "device[0].link[0].zzz"),
        ("[[device.state]]", "[[device]]\n[[device.state]]\nzzz = 1", "device[0].state[0].zzz"),
        ("a and b", "[[device]]\n[[device.link]]\na = { zzz = 1 }", "device[0].link[0].a.zzz"),
        ("fault", "[[device]]\n[[device.link]]\nfault = { zzz = 1 }", "device[0].link[0].fault.zzz"),
    ],
)
def test_keys_of_the_bench_file(heading: str, document: str, place: str) -> None:
    assert sorted(first_codes("reference/bench-file.md", heading)) == sorted(_known_keys(document, place))


def test_keys_of_the_sheet() -> None:
    """The page is made of the structs' own descriptions, so that they cannot disagree."""
    text = sheet_fields_text()
    assert read_page("reference/sheet-fields.md") == text, "run python -m pytest_netperf.report.schema --page"
    for line in text.splitlines():
        if line.startswith("| `"):
            key, meaning, source = (cell.strip() for cell in line.strip("|").split(" | "))
            assert meaning.endswith("."), key
            assert source, f"nobody says who sets {key}"
    for struct in (schema.Sheet, schema.Row, schema.DeviceRecord, schema.Attempt, schema.Waiver):
        assert f"## {struct.__name__}\n" in text
        assert all(f"| `{field.encode_name}` |" in text for field in msgspec.structs.fields(struct))


def test_kinds_of_journal_lines() -> None:
    from pytest_netperf.record import journal, journal_line

    kinds = ("run", "plan", "running", "stretch", "row", "finished", "sheet", "closed")
    written = [name for name in kinds if hasattr(journal.Journal, name)]
    keys = [field.name for field in msgspec.structs.fields(journal_line.Line)]
    rows = first_codes("reference/journal.md")
    assert rows[len(keys) :] == written
    assert rows[: len(keys)] == keys
    example = json.loads(next(block.text for block in BLOCKS if block.page.name == "journal.md"))
    assert list(example) == keys
    assert example["journal"] == journal_line.JOURNAL_VERSION


def test_hooks() -> None:
    documented = first_codes("reference/hooks.md")
    specs = {name: inspect.signature(getattr(hookspecs, name)) for name in hookspecs.__all__}
    assert documented == [f"{name}({', '.join(specs[name].parameters)})" for name in specs]


def command_line(*arguments: str) -> argparse.Namespace:
    """Parse as the console command does, without doing anything."""
    parsed: list[argparse.Namespace] = []
    original = argparse.ArgumentParser.parse_args

    class Stop(Exception):
        pass

    def parse(self: argparse.ArgumentParser, given: object = None, namespace: object = None) -> argparse.Namespace:
        parsed.append(original(self, given, namespace))
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse)
        with pytest.raises(Stop):
            cli.main(list(arguments))
    return parsed[0]


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    helped = capsys.readouterr().out
    commands = re.findall(r"^    (\w+) ", helped, re.MULTILINE)
    rows = [row for row in tables("reference/command-line.md") if len(row) == 3]
    assert [codes(row[0])[0] for row in rows] == commands
    for command, arguments, _ in rows:
        with pytest.raises(SystemExit):
            cli.main([codes(command)[0], "--help"])
        helped = capsys.readouterr().out
        flags = {flag for flag in re.findall(r"--[a-z-]+", helped) if not flag.startswith(("--help", "--netperf-"))}
        assert flags == {code.split()[0] for code in codes(arguments) if code.startswith("--")}


def test_keys_of_import_json() -> None:
    from pytest_netperf.traffic.import_report import describe
    from pytest_netperf.traffic.result import Reading

    keys = [row[0].strip("`") for row in tables("reference/command-line.md", "import --json")]
    assert keys == list(describe("file", Reading(trusted=False, reason="")))


# ---- the package -----------------------------------------------------------------------------------------------------


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    named = [re.match(r"[\w-]+", requirement)[0] for group in groups for requirement in group]
    page = read_page("explanation/dependencies.md")
    assert [name for name in named if name != "pytest-netperf" and not re.search(rf"\b{name}\b", page)] == []


def test_lowest_versions_are_tested() -> None:
    """tox's environment `lowest` pins what pyproject.toml allows, and not linters, type checkers and Sphinx."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in extras if name != "docs")]
    floors = dict(requirement.split(">=") for group in groups for requirement in group if ">=" in requirement)
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string((ROOT / "tox.ini").read_text("utf-8"))
    pins = dict(line.split("==") for line in parser["testenv:lowest"]["deps"].split())
    assert {
        name: floor.split(".") for name, floor in floors.items() if name not in ("ruff", "mypy", "basedpyright")
    } == {name: pin.split(".")[: len(floors[name].split("."))] for name, pin in pins.items()}
    for name, pin in pins.items():
        assert not pin.removeprefix(floors[name]).strip(".0"), f"{name} is pinned above its floor"


def test_readme_opens_with_what_it_is_and_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    head = text[: text.index("\n## ")]
    assert "iperf3" in head
    assert "netperf" in head
    commands = re.findall(r"^\$ (\S+ \w+)", head, re.MULTILINE)
    assert commands == ["./run demo", "./run test"]


def test_bench_commands(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [codes(row[0]) for row in tables("reference/command-line.md", "bench")]
    assert [row[0] for row in rows] == ["check", "init"]
    for command, *arguments in rows:
        with pytest.raises(SystemExit):
            cli.main(["bench", command, "--help"])
        flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        assert flags == {code.split()[0] for code in arguments if code.startswith("--")}


def test_keys_of_bench_check_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["bench", "check", "--json", str(tmp_path / "none.toml")])
    assert first_codes("reference/command-line.md", "bench check --json")[:4] == list(
        json.loads(capsys.readouterr().out)
    )


def test_profiles_of_models() -> None:
    from pytest_netperf.bench.model_profile import load_profiles, parse_profile
    from pytest_netperf.quantities import format_speed

    shown = {}
    for name, profile in load_profiles().items():
        ports = ", ".join(f"{kind.count} x {format_speed(kind.speed_bps)}" for kind in profile.ports)
        shown[f"`{name}`"] = (ports, "; ".join(", ".join(kind.drivers) for kind in profile.ports))
    rows = [row for row in tables("reference/bench-file.md", "Profiles") if row[0].strip("`") in load_profiles()]
    assert {row[0]: (row[1], row[2]) for row in rows} == shown
    (example,) = [block.text for block in BLOCKS if block.page.name == "bench-file.md" and "BOX-2" in block.text]
    assert parse_profile(example).baselines[0].line_limited
