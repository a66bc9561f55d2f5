"""Options: precedence, what paths are relative to, and how wrong ones are reported."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.builtin import builtin_bench
from pytest_netperf.options import Options, select_devices

pytest_plugins = ["pytester"]


@pytest.fixture
def options(pytester):
    """Read options as pytest would, from these arguments and this ini text."""

    def read(*args: str, ini: str = "") -> Options:
        pytester.makeini(f"[pytest]\n{ini}")
        pytester.makeconftest("from pytest_netperf.options import add_options as pytest_addoption")
        config = pytester.parseconfig("-p", "no:netperf", *args)
        try:
            return Options.from_config(config)
        finally:
            config._ensure_unconfigure()

    return read


def refused(options, *args: str, ini: str = "") -> list[str]:
    with pytest.raises(pytest.UsageError) as caught:
        options(*args, ini=ini)
    return str(caught.value).splitlines()


def test_without_anything_the_defaults(options, pytester):
    assert options() == Options(
        output=pytester.path / "netperf-results", store=pytester.path / "netperf-results" / "results.db"
    )
    assert (Options().duration_s, Options().omit_s, Options().slots, Options().engine) == (None, None, 1, "iperf3")


def test_every_option_of_the_command_line(options, pytester):
    found = options(
        "--netperf-bench=b.toml",
        "--netperf-device=A",
        "--netperf-device=B",
        "--netperf-device=A",
        "--netperf-batch=2026-48",
        "--netperf-operator=O. Perator",
        "--netperf-limits=l.toml",
        "--netperf-profiles=models",
        "--netperf-output=out",
        "--netperf-engine=libiperf",
        "--netperf-duration=30",
        "--netperf-omit=0",
        "--netperf-slots=2",
        "--netperf-rule=guarded",
        "--netperf-role=buyer",
        "--netperf-reference",
        "--netperf-keep",
        "--netperf-allow-inconclusive",
    )
    assert found == Options(
        bench=pytester.path / "b.toml",
        devices=("A", "B"),
        batch="2026-48",
        operator="O. Perator",
        limits=pytester.path / "l.toml",
        profiles=pytester.path / "models",
        output=pytester.path / "out",
        store=pytester.path / "out" / "results.db",
        engine="libiperf",
        duration_s=30.0,
        omit_s=0.0,
        slots=2,
        rule="guarded",
        role="buyer",
        reference="now",
        keep=True,
        allow_inconclusive=True,
    )
    assert pickle.loads(pickle.dumps(found)) == found


INI = """
netperf_bench = b.toml
netperf_batch = 2026-48
netperf_operator = O
netperf_limits = l.toml
netperf_output = out
netperf_engine = libiperf
netperf_duration = 2 min
netperf_omit = 3 s
netperf_slots = 4
netperf_rule = guarded
netperf_role = vendor
netperf_reference = off
netperf_history = off
"""


def test_every_key_of_the_ini_file(options, pytester):
    assert options(ini=INI) == Options(
        bench=pytester.path / "b.toml",
        batch="2026-48",
        operator="O",
        limits=pytester.path / "l.toml",
        output=pytester.path / "out",
        store=pytester.path / "out" / "results.db",
        engine="libiperf",
        duration_s=120.0,
        omit_s=3.0,
        slots=4,
        rule="guarded",
        role="vendor",
        reference="off",
        history=False,
    )


def test_the_command_line_wins_over_the_ini_file(options, pytester):
    found = options("--netperf-duration=5", "--netperf-slots=1", "--netperf-bench=other.toml", ini=INI)
    assert (found.duration_s, found.slots, found.bench) == (5.0, 1, pytester.path / "other.toml")
    assert found.omit_s == 3.0


def test_paths_start_where_they_were_written(options, pytester, monkeypatch):
    """The ini file's from the rootdir, those of the command line and the default from where pytest was called."""
    called_in = pytester.mkdir("sub")
    monkeypatch.chdir(called_in)
    found = options("--netperf-limits=l.toml", ini="netperf_bench = b.toml")
    assert found.bench == pytester.path / "b.toml"
    assert found.limits == called_in / "l.toml"
    assert found.output == called_in / "netperf-results"
    assert options(ini="netperf_output = out").output == pytester.path / "out"


def test_absolute_paths_stay_and_a_home_is_found(options, pytester, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    absolute = pytester.path / "deep" / "b.toml"
    found = options(f"--netperf-bench={absolute}", "--netperf-limits=~/l.toml")
    assert found.bench == absolute
    assert str(found.limits) == "/home/somebody/l.toml"


@pytest.mark.parametrize(("text", "seconds"), [("1", 1.0), ("1 s", 1.0), ("1500 ms", None), ("1 h", 3600.0)])
def test_durations_may_be_bare_seconds(options, text, seconds):
    if seconds is None:
        assert "whole number of seconds" in refused(options, f"--netperf-duration={text}")[0]
    else:
        assert options(f"--netperf-duration={text}").duration_s == seconds


@pytest.mark.parametrize(
    ("arg", "words"),
    [
        ("--netperf-duration=0", "whole number of seconds from 1 to 86400"),
        ("--netperf-duration=0.5", "iperf3 counts whole seconds"),
        ("--netperf-duration=-3", "-3"),
        ("--netperf-duration=86401", "from 1 to 86400"),
        ("--netperf-duration=nan", "finite"),
        ("--netperf-duration=1e300", "from 1 to 86400"),
        ("--netperf-duration=ten", "ten"),
        ("--netperf-duration=10 parsec", "parsec"),
        ("--netperf-duration=", "empty"),
        ("--netperf-omit=601", "whole number of seconds from 0 to 600"),
        ("--netperf-omit=-1", "-1"),
        ("--netperf-slots=0", "whole number from 1 to 1024"),
        ("--netperf-slots=-1", "whole number from 1 to 1024"),
        ("--netperf-slots=1.5", "whole number from 1 to 1024"),
        ("--netperf-slots=many", "whole number from 1 to 1024"),
        ("--netperf-slots=2000", "whole number from 1 to 1024"),
        ("--netperf-slots=" + "9" * 5000, "whole number from 1 to 1024"),
        ("--netperf-slots=²", "whole number from 1 to 1024"),
        ("--netperf-engine=iperf", "there is no engine 'iperf'; write iperf3 (the program) or libiperf"),
        ("--netperf-bench=", "the path is empty"),
        ("--netperf-limits= ", "the path is empty"),
        ("--netperf-output=", "the path is empty"),
        ("--netperf-sheet=", "there is no format ''; write a list with commas of html, pdf, csv, json"),
        ("--netperf-sheet=html,docx", "there is no format 'docx'"),
        ("--netperf-job-summary", "GITHUB_STEP_SUMMARY names no file, so this is no GitHub job; leave it out"),
        ("--netperf-language=xx", "there are no texts in language 'xx'; known: en, ja"),
        ("--netperf-templates=none", "is not a folder with templates"),
        ("--netperf-logo=none.svg", "cannot read the logo: No such file"),
        ("--netperf-bench=a\0b", "NUL"),
        ("--netperf-operator=", "an environment variable that is not set?"),
        ("--netperf-batch=a\nb", "one line of at most 200 printable characters"),
        ("--netperf-batch=" + "x" * 201, "one line of at most 200 printable characters"),
        ("--netperf-device=", "the serial is empty"),
        (
            "--netperf-rule=gaurded",
            "unknown decision rule 'gaurded' (did you mean 'guarded'?); known: simple, guarded.",
        ),
        ("--netperf-rule=Simple", "unknown decision rule 'Simple'"),
        ("--netperf-rule=", "unknown decision rule ''; known: simple, guarded."),
        ("--netperf-rule=guarded", "needs a role: vendor (proves conformity) or buyer"),
        ("--netperf-rule=guarded", "Add --netperf-role vendor or --netperf-role buyer."),
        ("--netperf-role=vendor", "has no meaning under the simple rule"),
        ("--netperf-role=vendor", "Add --netperf-rule guarded, or leave the role away."),
        ("--netperf-role=byer", "unknown role 'byer' (did you mean 'buyer'?); known: vendor, buyer."),
        ("--netperf-role=", "unknown role ''; known: vendor, buyer."),
    ],
)
def test_wrong_values_say_which_option_and_what_is_allowed(options, arg, words):
    found = "\n".join(refused(options, arg))
    assert found.startswith(arg.split("=")[0])
    assert words in found


@pytest.mark.parametrize("role", ["vendor", "buyer"])
def test_rule_and_role_may_come_from_different_places(options, role):
    found = options(f"--netperf-role={role}", ini="netperf_rule = guarded")
    assert (found.rule, found.role) == ("guarded", role)
    found = options(f"--netperf-role={role}", ini=INI)
    assert (found.rule, found.role) == ("guarded", role)
    found = options("--netperf-rule=guarded", ini=f"netperf_role = {role}")
    assert (found.rule, found.role) == ("guarded", role)


def test_simple_on_the_command_line_overrules_rule_and_role_of_the_ini_file(options):
    found = options("--netperf-rule=simple", ini=INI)
    assert (found.rule, found.role) == ("simple", None)


@pytest.mark.parametrize(
    ("args", "ini", "at"),
    [
        (("--netperf-rule=simple", "--netperf-role=vendor"), "", "--netperf-role vendor: "),
        (("--netperf-rule=simple", "--netperf-role="), "netperf_role = vendor", "--netperf-role: "),
        ((), "netperf_role = vendor", "netperf_role = vendor (ini file): "),
        ((), "netperf_rule = simple\nnetperf_role = vendor", "netperf_role = vendor (ini file): "),
        ((), "netperf_rule = guarded", "netperf_rule = guarded (ini file): "),
        (("--netperf-rule=guarded",), "netperf_role = seller", "netperf_role = seller (ini file): "),
        (("--netperf-rule=x", "--netperf-role=y"), "", "--netperf-rule x: "),
    ],
)
def test_a_rule_and_a_role_that_do_not_fit_say_which_of_them(options, args, ini, at):
    (line,) = refused(options, *args, ini=ini)
    assert line.startswith(at)


def test_wrong_values_of_the_ini_file_say_so(options):
    (line,) = refused(options, ini="netperf_duration = soon")
    assert line.startswith("netperf_duration = soon (ini file): ")


@pytest.mark.parametrize("value", ["now", "on", "OFF", "false", "24 h"])
def test_the_ini_file_can_only_leave_the_reference_to_itself_or_switch_it_off(options, value):
    (line,) = refused(options, ini=f"netperf_reference = {value}")
    assert line == (
        f"netperf_reference = {value} (ini file): must be auto or off; to measure it now, use --netperf-reference"
    )


@pytest.mark.parametrize(
    ("args", "ini", "expected"),
    [
        ((), "", "auto"),
        ((), "netperf_reference =", "auto"),
        ((), "netperf_reference = auto", "auto"),
        (("-o", "netperf_reference=off"), "", "off"),
        (("--netperf-reference",), "netperf_reference = off", "now"),
    ],
)
def test_when_the_reference_is_measured(options, args, ini, expected):
    assert options(*args, ini=ini).reference == expected


@pytest.mark.parametrize("value", ["auto", "ON", "false", "0"])
def test_the_history_is_on_or_off(options, value):
    (line,) = refused(options, ini=f"netperf_history = {value}")
    assert line == f"netperf_history = {value} (ini file): must be on or off"
    (line,) = refused(options, f"--netperf-history={value}")
    assert line == f"--netperf-history {value}: must be on or off"


@pytest.mark.parametrize(
    ("args", "ini", "expected"),
    [
        ((), "netperf_history =", True),
        ((), "netperf_history = off", False),
        (("--netperf-history=on",), "netperf_history = off", True),
        (("--netperf-history=off",), "netperf_history = on", False),
    ],
)
def test_where_the_history_is_switched(options, args, ini, expected):
    assert options(*args, ini=ini).history is expected


def test_all_mistakes_are_listed_at_once(options):
    found = refused(options, "--netperf-duration=0", "--netperf-engine=x", ini="netperf_slots = none")
    assert len(found) == 3


def test_results_cannot_go_into_a_file(options, pytester):
    (pytester.path / "taken").touch()
    for arg in ("--netperf-output=taken", "--netperf-output=taken/deeper"):
        (line,) = refused(options, arg)
        assert str(pytester.path / "taken") in line
        assert "is not a folder" in line


WITH_INI_KEY = (
    "bench", "batch", "operator", "limits", "output", "engine", "duration", "omit", "slots", "rule", "role",
    "reference",
)  # fmt: skip


def test_the_help_names_every_option_and_key(pytester):
    pytester.makeconftest("from pytest_netperf.options import add_options as pytest_addoption")
    text = pytester.runpytest_inprocess("-p", "no:netperf", "--help").stdout.str()
    for name in (*WITH_INI_KEY, "device", "keep", "allow-inconclusive"):
        assert f"--netperf-{name}" in text
    for name in WITH_INI_KEY:
        assert f"netperf_{name} (string)" in text


TWO_DEVICES = parse_bench('[[device]]\nserial = "R86S-0007"\n[[device]]\nserial = "R86S-0008"', "bench.toml")


def test_without_a_choice_every_device_is_tested():
    assert select_devices(Options(), TWO_DEVICES) == ("R86S-0007", "R86S-0008")
    assert select_devices(Options(), builtin_bench()) == ("SIM-0001",)


def test_chosen_devices_come_in_the_order_of_the_bench():
    assert select_devices(Options(devices=("R86S-0008",)), TWO_DEVICES) == ("R86S-0008",)
    assert select_devices(Options(devices=("R86S-0008", "R86S-0007")), TWO_DEVICES) == ("R86S-0007", "R86S-0008")


def test_a_serial_that_is_not_on_the_bench_lists_those_that_are():
    with pytest.raises(pytest.UsageError) as caught:
        select_devices(Options(devices=("R86S-0007", "R86S-008")), TWO_DEVICES)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("--netperf-device R86S-008: there is no such device on bench.toml")
    assert "known: R86S-0007, R86S-0008" in line
    assert "did you mean 'R86S-0008'" in line


def test_a_serial_without_a_bench_file_says_that_none_was_given():
    with pytest.raises(pytest.UsageError, match=r"no --netperf-bench was given.*known: SIM-0001"):
        select_devices(Options(devices=("R86S-0007",)), builtin_bench())


def test_nothing_heavy_is_imported_with_the_options():
    code = (
        "import sys, pytest; before = set(sys.modules); import pytest_netperf.options; "
        "print(*(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"pytest_netperf", "pytest_netperf.option_values", "pytest_netperf.options"}
