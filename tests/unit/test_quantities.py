"""Units and quantities: exact reading, refusals that help, printing that can be read back."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_netperf import quantities, units
from pytest_netperf.errors import ConfigError, QuantityError
from pytest_netperf.quantities import (
    convert,
    format_exact,
    format_pair,
    format_speed,
    format_value,
    get_quantity,
    may_be_negative,
    parse_duration,
    parse_rate,
    parse_ratio,
    parse_size,
    parse_speed,
    parse_value,
    register_quantity,
)


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, so that what a test registers is gone after it."""
    monkeypatch.setattr(quantities, "_REGISTRY", dict(quantities._REGISTRY))


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("9.8 Gbps", 9_800_000_000),
        ("9.8Gbps", 9_800_000_000),
        ("  9.8\tGbit/s ", 9_800_000_000),
        ("9.8 Gb/s", 9_800_000_000),
        ("9.8 Gbits/sec", 9_800_000_000),  # as iperf3 prints it
        ("2.3 Gbps", 2_300_000_000),  # 2.3 * 1e9 in floats is 2299999999.9999995
        ("950 Mbps", 950_000_000),
        ("64 kbps", 64_000),
        ("64 Kbps", 64_000),
        ("1 bit/s", 1),
        ("0 bps", 0),
        ("1.2 GB/s", 9_600_000_000),
        ("1 MiB/s", 8 * 2**20),
        ("2.3 Gibit/s", 2_469_606_195.2),
        ("1 Mibit/s", 2**20),
        ("1e3 Mbps", 1_000_000_000),
        (".5 Gbps", 500_000_000),
        ("+1. Gbps", 1_000_000_000),
        ("0.1 Tbit/s", 100_000_000_000),
        ("-0 Gbps", 0),
    ],
)
def test_rates_are_read_exactly(text, bps):
    assert parse_rate(text) == bps
    assert math.copysign(1, parse_rate(text)) == 1


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ("9.8", "a rate needs its unit"),
        (9.8, "written as text, not as float"),
        (True, "written as text, not as bool"),
        (None, "written as text, not as NoneType"),
        ("", "empty, expected a rate"),
        ("   ", "empty, expected a rate"),
        ("Gbps", "the number is missing"),
        ("fast", "the number is missing"),
        ("nan Gbps", "must be a finite number"),
        ("-nan", "must be a finite number"),
        ("inf Gbps", "must be a finite number"),
        ("Infinity bit/s", "must be a finite number"),
        ("-1 Gbps", "a rate cannot be negative"),
        ("\N{MINUS SIGN}1 Gbps", "a rate cannot be negative"),
        ("9,8 Gbps", "a comma is not understood"),
        ("1,000 Mbps", "a comma is not understood"),
        ("1.2.3 Gbps", "cannot read this number"),
        ("1_000 Mbps", "cannot read this number"),
        ("1e999 Gbps", "the number is too large"),
        ("1e-999 bps", "the number is too small"),
        ("1" * 5000 + " bps", "too many digits"),
        ("9.8 gbps", "unknown unit 'gbps' for a rate (did you mean 'Gbps'?)"),
        ("9.8 Mbit", "unknown unit 'Mbit' for a rate"),
        ("9.8 GBps", "read as bits and as bytes; say 'Gbit/s' or 'GB/s'"),
        ("9.8 KB/s", "unknown unit 'KB/s' for a rate (did you mean 'kb/s' or 'Kb/s' or 'kB/s'?)"),
        ("9.8 Gbps or so", "unknown unit 'Gbps or so'"),
        ("3 s", "'s' is a unit of time, expected a rate"),
        ("5 %", "'%' is a unit of ratio, expected a rate"),
        ("10G", "unknown unit 'G' for a rate"),
        ("1 speed", "unknown unit 'speed'"),
        ("\N{ARABIC-INDIC DIGIT FIVE} Gbps", "the number is missing"),
    ],
)
def test_a_wrong_rate_is_refused_with_its_own_message_and_the_way_out(given_, says):
    with pytest.raises(QuantityError) as caught:
        parse_rate(given_)
    message = str(caught.value)
    assert says in message
    assert "Write for example '9.8 Gbps'" in message
    assert "Gbit/s" in message
    assert "GB/s" in message
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("2.5G", 2.5e9),
        ("10G", 1e10),
        ("100M", 1e8),
        (" 1000 M ", 1e9),
        ("2.5GbE", 2.5e9),
        ("2.5 Gbps", 2.5e9),
        ("1T", 1e12),
        ("10 Gbit/s", 1e10),
    ],
)
def test_link_speeds_may_be_short(text, bps):
    assert parse_speed(text) == bps


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        (2.5, "not as float"),
        (1000, "not as int"),
        (["1G"], "not as list"),
        ("2.5", "a link speed needs its unit"),
        ("2.5g", "unknown unit 'g' for a link speed"),
        ("0G", "must be above zero"),
        ("-1G", "cannot be negative"),
        ("1..5G", "cannot read this number"),
        ("G", "the number is missing"),
        ("2.5 s", "'s' is a unit of time, expected a link speed"),
    ],
)
def test_a_wrong_link_speed_is_refused(given_, says):
    with pytest.raises(QuantityError) as caught:
        parse_speed(given_)
    assert says in str(caught.value)
    assert repr(given_) in str(caught.value)
    assert "100M, 2.5G, 10G" in str(caught.value)


@pytest.mark.parametrize("speed", ["100M", "1G", "2.5G", "5G", "10G", "25G", "40G", "100G", "1.25G", "64k", "1T"])
def test_a_link_speed_is_printed_as_it_is_written(speed):
    assert format_speed(parse_speed(speed)) == speed


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (10, 10),
        (0, 0),
        (0.25, 0.25),
        ("10", 10),
        ("10 s", 10),
        ("500 ms", 0.5),
        ("30 min", 1800),
        ("1.5 h", 5400),
        ("2 d", 172800),
        ("13.2 us", 13.2e-6),
        ("13.2 \u00b5s", 13.2e-6),
        ("1 ns", 1e-9),
    ],
)
def test_durations_may_be_bare_seconds(value, seconds):
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", [-1, -0.1, math.nan, math.inf, 10**400, "-1 s", "1 m", "1 Gbps", "", "ten", True, None]
)
def test_a_wrong_duration_is_refused(value):
    with pytest.raises(QuantityError, match="understood: s, ms"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        (9000, 9000),
        ("9000 B", 9000),
        ("64 KiB", 65536),
        ("64 kB", 64000),
        ("1.5 MiB", 1572864),
        ("0.5 kB", 500),
    ],
)
def test_sizes(value, size):
    assert parse_size(value) == size
    assert type(parse_size(value)) is int


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-1, "cannot be negative"),
        (1.5, "not as float"),
        (True, "not as bool"),
        ("9000", "needs its unit"),
        ("64 KB", "did you mean 'kB'?"),
        ("64K", "unknown unit 'K'"),
        ("1.5 B", "not a whole number of bytes"),
        ("64 kbit/s", "unit of rate"),
    ],
)
def test_a_wrong_size_is_refused(value, says):
    with pytest.raises(QuantityError) as caught:
        parse_size(value)
    assert says in str(caught.value)
    assert "KiB" in str(caught.value)


def test_ratios_need_their_unit_because_a_bare_one_could_mean_two_things():
    assert parse_ratio("0.5 %") == parse_ratio("5000 ppm") == parse_ratio("0.005 ratio") == 0.005
    assert parse_ratio("98%") == 0.98
    with pytest.raises(QuantityError, match=r"'0\.005': a ratio needs its unit.*'0\.5 %'.*ppm"):
        parse_ratio("0.005")
    with pytest.raises(QuantityError, match="cannot be negative"):
        parse_ratio("-1 %")


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("50", "retransmits", 50),
        ("15 W", "power", 15),
        ("800 mW", "power", 0.8),
        ("60 degC", "temperature", 60),
        ("-5 \u00b0C", "temperature", -5),
        ("200 us", "jitter", 200e-6),
        ("0.1 %", "frame_loss_ratio", 0.001),
        ("812 kpps", "frame_rate", 812_000),
        ("14.88 Mpps", "frame_rate", 14_880_000),
        ("9000 B", "mtu", 9000),
        ("2.5 Gbit/s", "link_speed", 2.5e9),
        ("2.3 Gbps", "goodput", 2.3e9),
    ],
)
def test_values_are_read_in_the_unit_of_their_quantity(text, quantity, value):
    assert parse_value(text, quantity) == value
    assert parse_value(text, get_quantity(quantity)) == value


@pytest.mark.parametrize(
    ("text", "quantity", "says"),
    [
        ("50 %", "retransmits", "a count takes no unit, found '%'"),
        ("50 k", "retransmits", "a count takes no unit"),
        ("15", "power", "a power needs its unit"),
        ("15 w", "power", "did you mean 'W'?"),
        ("60", "temperature", "a temperature needs its unit"),
        ("9.8 Gbps", "frame_rate", "'Gbps' is a unit of rate, expected a frame rate"),
        ("-1", "retransmits", "a count cannot be negative"),
        ("nan", "retransmits", "finite"),
        (50, "retransmits", "written as text"),
    ],
)
def test_a_wrong_value_is_refused(text, quantity, says):
    with pytest.raises(QuantityError) as caught:
        parse_value(text, quantity)
    assert says in str(caught.value)


def test_recorded_numbers_are_converted_exactly_and_nan_reaches_the_judge():
    assert convert(13.5, "W", "power") == 13.5
    assert convert(2.3, "Gbps", "throughput") == 2.3e9
    assert convert(0.1, "%", "frame_loss_ratio") == 0.001
    assert convert(7, "", "retransmits") == convert(7, "1", "retransmits") == 7
    assert math.isnan(convert(math.nan, "W", "power"))
    assert convert(-math.inf, "W", "power") == -math.inf
    assert convert(1e308, "GW", "power") == math.inf
    with pytest.raises(QuantityError, match=r"'15\.0': a power needs its unit"):
        convert(15.0, "", "power")
    with pytest.raises(QuantityError, match="'A' is a unit of current, expected a power"):
        convert(1.0, "A", "power")
    with pytest.raises(QuantityError, match=r"unknown quantity 'powr'.*did you mean 'power'"):
        convert(1.0, "W", "powr")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.897e9, "bit/s", "1.897 Gbit/s"),
        (9.885e9, "bit/s", "9.885 Gbit/s"),
        (999.96e6, "bit/s", "1 Gbit/s"),
        (999.94e6, "bit/s", "999.9 Mbit/s"),
        (0, "bit/s", "0 bit/s"),
        (0.5, "bit/s", "0.5 bit/s"),
        (330e6, "B/s", "330 MB/s"),
        (0.0132, "s", "13.2 ms"),
        (13.2e-6, "s", "13.2 us"),
        (2e-10, "s", "0.2 ns"),
        (5400, "s", "5400 s"),
        (0.005, "ratio", "0.5 %"),
        (1, "ratio", "100 %"),
        (1e-7, "ratio", "0.00001 %"),
        (50, "1", "50"),
        (1234567, "1", "1234567"),
        (0.25, "1", "0.25"),
        (9000, "B", "9000 B"),
        (2_000_000, "B", "2 MB"),
        (61.25, "degC", "61.25 \u00b0C"),
        (-5, "degC", "-5 \u00b0C"),
        (-3.25, "dBm", "-3.25 dBm"),
        (81274.38, "frame/s", "81.27 kframe/s"),
        (1e17, "bit/s", "100000 Tbit/s"),
        (math.nan, "bit/s", "nan bit/s"),
        (math.inf, "1", "inf"),
    ],
)
def test_values_are_printed_for_people(value, unit, text):
    assert format_value(value, unit) == text


def test_numbers_that_differ_are_printed_so_that_the_difference_shows():
    assert format_pair(2_299_999_900, 2.3e9, "bit/s") == ("2.2999999 Gbit/s", "2.3 Gbit/s")
    assert format_pair(1.897e9, 2.3e9, "bit/s") == ("1.897 Gbit/s", "2.3 Gbit/s")
    assert format_pair(2.3e9, 2.3e9, "bit/s") == ("2.3 Gbit/s", "2.3 Gbit/s")
    below = math.nextafter(2.3e9, 0)
    shown, bound = format_pair(below, 2.3e9, "bit/s")
    assert shown != bound
    assert parse_rate(shown) == below


READABLE = ["bit/s", "B/s", "frame/s", "s", "B", "Hz", "W", "V", "A", "ratio", "1", "degC", "dBm"]


@given(st.floats(1e-9, 1e15), st.sampled_from(READABLE), st.integers(3, 17))
def test_what_is_printed_reads_back_within_the_printed_digits(value, unit, digits):
    text = format_value(value, unit, digits)
    back = units.read(text, unit)
    assert abs(back - value) <= 0.5000001 * 10.0 ** (math.floor(math.log10(value)) - digits + 1) + 1e-12 * value
    assert format_value(value, unit, digits) == text
    assert "e" not in text.split()[0]


@given(st.floats(1e-9, 1e15), st.sampled_from(READABLE))
def test_exact_printing_loses_nothing(value, unit):
    assert units.read(format_exact(value, unit), unit) == value


@given(st.floats(1, 1e12), st.floats(1, 1e12), st.sampled_from(["bit/s", "1", "ratio", "s"]))
def test_a_printed_pair_keeps_its_order(first, second, unit):
    pair = format_pair(first, second, unit)
    shown = [units.read(text, unit) for text in pair]
    assert (first < second) == (shown[0] < shown[1])
    assert (first == second) == (pair[0] == pair[1])


@given(st.text(max_size=30) | st.integers() | st.floats() | st.none() | st.binary(max_size=5) | st.booleans())
def test_no_input_ever_raises_anything_else(value):
    for parse in (parse_rate, parse_speed, parse_duration, parse_size, parse_ratio, lambda v: parse_value(v, "power")):
        message, number = "understood:", 0.0
        try:
            number = parse(value)
        except QuantityError as error:
            message = str(error)
        assert "understood:" in message
        assert math.isfinite(number)
        assert number >= 0


DESIGN_LIST = [
    "throughput",
    "frame_rate",
    "wire_rate",
    "retransmits",
    "frame_loss_ratio",
    "jitter",
    "rtt_p50",
    "rtt_p99",
    "buffer_delay",
    "tester_cpu",
    "dut_cpu",
    "temperature",
    "power",
    "drift",
    "link_speed",
    "mtu",
    "pcie_bandwidth",
    "errors",
    "carrier_changes",
    "crc_errors",
    "missed",
    "drops",
    "pause_forward",
    "pause_reverse",
    "eee_ports",
    "forwarding_rate",
]


def test_the_registry_holds_the_list_of_the_design():
    assert [quantity.name for quantity in quantities.quantities()] == DESIGN_LIST
    for quantity in quantities.quantities():
        assert quantity.description
        assert quantity.how
        assert units.is_base_unit(quantity.unit)
    assert get_quantity("goodput") is get_quantity("throughput")
    assert get_quantity("throughput").better == "higher"
    assert {name for name in DESIGN_LIST if get_quantity(name).better == "higher"} == {
        "throughput",
        "frame_rate",
        "wire_rate",
        "forwarding_rate",
        "link_speed",
        "mtu",
        "pcie_bandwidth",
    }


@pytest.mark.parametrize(
    ("name", "hint"), [("throughputt", "'throughput'"), ("retransmit", "'retransmits'"), ("jiter", "'jitter'")]
)
def test_an_unknown_quantity_lists_the_near_misses_and_all_known(name, hint):
    with pytest.raises(QuantityError) as caught:
        get_quantity(name)
    assert f"unknown quantity {name!r} (did you mean" in str(caught.value)
    assert hint in str(caught.value)
    assert "frame_loss_ratio" in str(caught.value)


def test_nothing_near_gives_no_hint():
    with pytest.raises(QuantityError) as caught:
        get_quantity("zzz")
    assert "did you mean" not in str(caught.value)
    with pytest.raises(QuantityError, match="unknown quantity 5"):
        get_quantity(5)


@pytest.mark.usefixtures("registry")
def test_a_test_can_register_its_own_quantity():
    noise = register_quantity("noise", "dBA", better="lower", description="at 1 m", aliases=("sound",))
    assert get_quantity("noise") is get_quantity("sound") is noise
    assert register_quantity("noise", "dBA", better="lower") is noise  # imported twice, e.g. by two test modules
    assert parse_value("42.5 dBA", "noise") == 42.5
    assert parse_value("-3 dBA", "noise") == -3
    assert may_be_negative("dBA")
    with pytest.raises(QuantityError, match=r"unknown unit 'kdBA' for a value in dBA.*'50 dBA'"):
        parse_value("1 kdBA", "noise")
    with pytest.raises(QuantityError, match="'W' is a unit of power, expected a value in dBA"):
        parse_value("1 W", "noise")
    disk = register_quantity("disk_read", "B/s", better="higher")
    assert parse_value("330 MB/s", disk) == 330e6
    assert parse_value("8 Mbit/s", disk) == 1e6
    assert not may_be_negative("B/s")
    assert quantities.quantities()[-2:] == (noise, disk)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("name", "unit", "better", "aliases", "says"),
    [
        ("throughput", "frame/s", "higher", (), "already known as 'throughput' in 'bit/s'"),
        ("retransmits", "1", "higher", (), "lower is better"),
        ("goodput", "bit/s", "higher", (), "already known as 'throughput'"),
        ("speedy", "bit/s", "higher", ("goodput",), "'goodput' is already known as 'throughput'"),
        ("Noise", "dBA", "lower", (), "cannot name a quantity"),
        ("a b", "dBA", "lower", (), "cannot name a quantity"),
        ("", "dBA", "lower", (), "cannot name a quantity"),
        (7, "dBA", "lower", (), "cannot name a quantity"),
        ("source", "dBA", "lower", (), "none of required, role, rule, source"),
        ("noise", "dBA", "louder", (), "'higher', 'lower' or 'none', not 'louder'"),
        ("noise", "", "lower", (), "is no unit"),
        ("noise", None, "lower", (), "is no unit"),
        ("noise", "5", "lower", (), "is no unit"),
        ("noise", "d B", "lower", (), "is no unit"),
        ("storage", "MB/s", "higher", (), "register it in 'bit/s', not 'MB/s'"),
        ("latency", "ms", "lower", (), "register it in 's', not 'ms'"),
        ("power2", "w", "lower", (), "register it in 'W', not 'w'"),
    ],
)
def test_nonsense_is_not_registered(name, unit, better, aliases, says):
    before = dict(quantities._REGISTRY)
    with pytest.raises(QuantityError) as caught:
        register_quantity(name, unit, better=better, aliases=aliases)
    assert says in str(caught.value)
    assert before == quantities._REGISTRY


def test_importing_quantities_pulls_in_nothing_heavy():
    code = "import sys, pytest_netperf.quantities; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"msgspec", "jinja2", "pyroute2", "difflib", "decimal", "pytest", "asyncio"} & set(loaded)
