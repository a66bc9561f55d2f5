"""Which device it is: what the bench file says of it, and serials that cannot be those of their model."""

import pytest

from pytest_netperf.bench.bench_file import parse_bench
from pytest_netperf.bench.model_profile import parse_profile, with_own_profiles
from pytest_netperf.bench_check import check_bench
from pytest_netperf.errors import BenchError

PROFILE = """
model = "BOX-2"
source = "its data sheet"
serial_pattern = 'BOX2-[0-9]{4}'
[[port]]
name = "LAN"
count = 2
speed = "1G"
drivers = ["igb"]
"""


def bench(*serials, model="BOX-2", more=""):
    return "\n".join(f'[[device]]\nserial = "{serial}"\nmodel = "{model}"\n{more}' for serial in serials)


def test_everything_that_tells_a_device_from_others():
    more = """
part_number = "B2-16-512"
hardware_revision = "C"
macs = ["00:00:5E:00:53:01", "00:00:5e:00:53:02"]
firmware = "1.2"
bios = "5.19"
nic_stepping = "I225-V B3"
"""
    (device,) = parse_bench(bench("A", more=more)).devices
    assert (device.part_number, device.hardware_revision, device.firmware) == ("B2-16-512", "C", "1.2")
    assert (device.bios, device.nic_stepping) == ("5.19", "I225-V B3")
    assert device.macs == ("00:00:5e:00:53:01", "00:00:5e:00:53:02")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('macs = "00:00:5e:00:53:01"', 'device[0].macs: "00:00:5e:00:53:01" is not a list; write one such as macs = ['),
        ('macs = ["0:0:5e:0:53:1"]', 'device[0].macs: "0:0:5e:0:53:1" is not a MAC address'),
        ("macs = [1]", "device[0].macs: 1 is not a MAC address"),
        ('macs = ["00:00:5e:00:53:01", "00:00:5E:00:53:01"]', "is there more than once; a MAC address is of one port"),
        ("firmware = 1.2", "device[0].firmware: 1.2 is not text"),
        ('bois = "x"', "device[0].bois: unknown key (did you mean 'bios'"),
    ],
)
def test_wrong_keys_are_refused_with_place_and_way_out(line, message):
    with pytest.raises(BenchError) as error:
        parse_bench(bench("A", more=line), "b.toml")
    assert message in str(error.value)


def test_a_serial_of_another_kind_is_refused_for_every_device_at_once(tmp_path):
    (tmp_path / "box.toml").write_text(PROFILE)
    good = parse_bench(bench("BOX2-0001", "BOX2-9999"), "b.toml")
    assert len(with_own_profiles(good, [tmp_path]).devices) == 2
    with pytest.raises(BenchError) as error:
        with_own_profiles(parse_bench(bench("BOX2-0001", "BOX2-00012", "box2-0001"), "b.toml"), [tmp_path])
    assert str(error.value).splitlines() == [
        f'b.toml: device[{number}].serial: "{serial}" is no serial of model "BOX-2": its profile '
        f'({tmp_path / "box.toml"}) has serial_pattern = "BOX2-[0-9]{{4}}"; correct the serial or the model'
        for number, serial in ((1, "BOX2-00012"), (2, "box2-0001"))
    ]


def test_a_model_without_a_pattern_takes_any_serial(tmp_path):
    (tmp_path / "box.toml").write_text(PROFILE)
    assert with_own_profiles(parse_bench(bench("x", model="OTHER")), [tmp_path]).devices[0].serial == "x"


def test_bench_check_says_it_too(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "box.toml").write_text(PROFILE)
    file = tmp_path / "bench.toml"
    file.write_text(bench("BOX3-0001"))
    problems = check_bench(file, tmp_path / "models").problems
    assert any('"BOX3-0001" is no serial of model "BOX-2"' in problem for problem in problems)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("'BOX2-[0-9'", 'box.toml: serial_pattern: "BOX2-[0-9" is no regular expression: unterminated character set'),
        ("'('", 'serial_pattern: "(" is no regular expression: missing ), unterminated subpattern'),
        ("3", "box.toml: serial_pattern: 3 is not text"),
    ],
)
def test_a_pattern_that_is_none(pattern, message):
    with pytest.raises(BenchError) as error:
        parse_profile(PROFILE.replace("'BOX2-[0-9]{4}'", pattern), "box.toml")
    assert message in str(error.value)
