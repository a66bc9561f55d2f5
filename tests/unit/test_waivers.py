"""A waiver takes a device although a row failed; it hides nothing, and covers nothing but a FAIL."""

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.record.schema import DeviceInfo
from pytest_netperf.record.waivers import parse_waivers
from pytest_netperf.record.waivers_file import read_waivers
from pytest_netperf.report.terminal import device_lines

SERIAL = "R86S-U4-0008"
DAY = "2026-12-31"


def text(**changes):
    keys = {"serial": SERIAL, "row": "*/p2]::throughput", "who": "head of quality", "why": "Not used.", "until": DAY}
    return "[[waiver]]\n" + "\n".join(f'{key} = "{value}"' for key, value in (keys | changes).items() if value)


def sheet_of(rows, *documents, complete=True, day="", planned=None):
    waivers = [waiver for document in documents for waiver in parse_waivers(document, "waivers.toml")]
    plan = plan_of(rows) if planned is None else planned
    (sheet,) = build_sheets(RUN, plan, rows, complete=complete, waivers=waivers, day=day)
    return sheet


def rows(verdict=Verdict.FAIL, **changes):
    return [make_row("p1"), make_row("p2", verdict, 1.897e9, **changes), make_row("p3")]


def test_a_device_with_a_waived_row_is_never_plainly_accepted():
    sheet = sheet_of(rows(), text())
    assert sheet.verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER
    assert sheet.sentence == (
        "1 of 3 required rows failed: 2.5G port p2 delivered 1.897 Gbit/s, required >= 2.3 Gbit/s. "
        "Waived by head of quality until 2026-12-31."
    )
    failed = sheet.rows[0]
    assert (failed.verdict, failed.waived) == (Verdict.FAIL, True)
    assert [row.waived for row in sheet.rows[1:]] == [False, False]
    (waiver,) = sheet.waivers
    assert (waiver.covers, waiver.problem, waiver.where) == ((failed.id,), None, "waivers.toml: waiver 1")


def test_it_is_printed_beside_the_failure():
    lines = [line for line, _ in device_lines(sheet_of(rows(), text()), None)]
    assert lines[0].startswith("R86S-U4-0008   ACCEPTED WITH WAIVER   2 of 3 rows passed")
    place = next(number for number, line in enumerate(lines) if line.startswith("  FAIL"))
    assert lines[place + 2] == "        Waived by head of quality until 2026-12-31: Not used."


def test_a_device_whose_only_row_is_waived():
    assert sheet_of(rows()[1:2], text()).verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER


@pytest.mark.parametrize("verdict", [v for v in Verdict if v not in (Verdict.PASS, Verdict.FAIL)])
def test_only_a_fail_can_be_waived(verdict):
    sheet = sheet_of(rows(verdict), text())
    assert sheet.verdict is (DeviceVerdict.ACCEPTED if verdict is Verdict.NOT_APPLICABLE else DeviceVerdict.NOT_PROVEN)
    assert not any(row.waived for row in sheet.rows)
    (waiver,) = sheet.waivers
    assert waiver.covers == ()
    if verdict is Verdict.NOT_APPLICABLE:
        assert waiver.problem == "It is not needed: what it names did not fail."
    else:
        assert f"p2]::throughput, which is {verdict.value}: only a FAIL can be waived" in waiver.problem


@pytest.mark.parametrize(
    ("changes", "day", "problem"),
    [
        ({"until": "2026-11-29"}, "", "It expired: its last day was 2026-11-29, this is 2026-11-30."),
        ({}, "2027-01-01", "It expired: its last day was 2026-12-31, this is 2027-01-01."),
        ({"row": "*/p9]::throughput"}, "", "There is no row '*/p9]::throughput' on this sheet."),
        ({"row": "p2"}, "", "There is no row 'p2' on this sheet."),
        ({"row": "*/p1]::throughput"}, "", "It is not needed: what it names did not fail."),
    ],
)
def test_one_that_covers_nothing_leaves_the_device_rejected_and_says_why(changes, day, problem):
    sheet = sheet_of(rows(), text(**changes), day=day)
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert (sheet.waivers[0].covers, sheet.waivers[0].problem) == ((), problem)
    assert f"  waivers.toml: waiver 1: {problem}" in [line for line, _ in device_lines(sheet, None)]


def test_its_last_day_counts():
    assert sheet_of(rows(), text(until="2026-11-30")).verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER


def test_brackets_of_a_row_stand_for_themselves():
    row = rows()[1].id
    assert "[" in row
    assert sheet_of(rows(), text(row=row)).verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER
    assert sheet_of(rows(), text(row="*[0-9]::throughput")).verdict is DeviceVerdict.REJECTED


def test_another_failure_is_not_waived_along():
    both = [*rows(), make_row("p4", Verdict.FAIL, 1e9)]
    sheet = sheet_of(both, text())
    assert sheet.verdict is DeviceVerdict.REJECTED
    assert sheet.sentence.endswith("What is waived by head of quality does not suffice.")
    also = sheet_of(both, text(), text(row="*/p4]::throughput"))
    assert also.verdict is DeviceVerdict.ACCEPTED_WITH_WAIVER


def test_a_waiver_makes_no_run_whole():
    assert sheet_of(rows(), text(), complete=False).verdict is DeviceVerdict.NOT_PROVEN
    planned = plan_of([*rows(), make_row("p4")])
    assert sheet_of(rows(), text(), planned=planned).verdict is DeviceVerdict.NOT_PROVEN
    left_out = [msgspec.structs.replace(plan, selected=plan.link != "p3") for plan in plan_of(rows())]
    assert sheet_of([*rows()[:2]], text(), planned=left_out).verdict is DeviceVerdict.NOT_PROVEN
    assert sheet_of([*rows(), make_row("p4", Verdict.INVALID)], text()).verdict is DeviceVerdict.NOT_PROVEN


def test_that_of_another_device_is_not_on_the_sheet():
    sheet = sheet_of(rows(), text(serial="R86S-U4-0009"))
    assert (sheet.verdict, sheet.waivers) == (DeviceVerdict.REJECTED, ())


def test_a_row_that_is_information_needs_none():
    sheet = sheet_of(rows(required=False), text())
    assert (sheet.verdict, sheet.rows[0].waived) == (DeviceVerdict.ACCEPTED, False)
    assert sheet.waivers[0].problem == "It is not needed: what it names did not fail."


def test_without_failure_nothing_changes():
    good = [make_row("p1"), make_row("p2")]
    assert sheet_of(good, text()).verdict is DeviceVerdict.ACCEPTED
    assert sheet_of(good, text()).sentence == "All 2 required rows passed."


def test_a_toml_date_will_do():
    (waiver,) = parse_waivers(text().replace(f'"{DAY}"', DAY), "w")
    assert waiver.until == DAY


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("x = ", "w: this is not TOML"),
        ("", "w: no waiver is given; write at least one [[waiver]] table"),
        ("waiver = 3", "w: waiver must be tables written [[waiver]]"),
        (f"{text()}\n[other]", "w: 'other' is not known here"),
        (text(whom="x"), "w: waiver 1: 'whom' is not known here (did you mean 'who'?)"),
        *((text(**{key: None}), f"w: waiver 1: {key} is missing; write ") for key in ("serial", "row", "who", "why")),
        (text(until=None), "w: waiver 1: until is missing; write the last day on which it holds, such as 2026-12-31."),
        (text(until="soon"), "w: waiver 1: until is 'soon'; write the last day"),
        (text(until="2026-13-01"), "w: waiver 1: until is '2026-13-01'; write the last day"),
        (text().replace(f'"{DAY}"', "7"), "w: waiver 1: until is 7; write the last day"),
        (text(who=" "), "w: waiver 1: who is ' '; write the name of who takes the responsibility."),
        (text(row="*"), "w: waiver 1: row '*' names every row, also those of later tests"),
        (text().replace('"Not used."', "[1]"), "w: waiver 1: why is [1]; write the sentence"),
    ],
)
def test_wrong_files_are_refused_with_place_and_way_out(document, message):
    with pytest.raises(ConfigError) as error:
        parse_waivers(document, "w")
    assert message in str(error.value)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as error:
        parse_waivers(text(who=None, until="x") + "\n" + text(row="**"), "w")
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == ["waiver 1", "waiver 1", "waiver 2"]


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"waivers file .*none\.toml cannot be read: No such file"):
        read_waivers(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"waivers file .*bad\.toml cannot be read"):
        read_waivers(tmp_path / "bad.toml")


def test_two_devices_of_one_run_have_their_own():
    other = [make_row("p2", Verdict.FAIL, 1.9e9, serial="B")]
    waivers = parse_waivers(text(), "w")
    sheets = build_sheets(RUN, plan_of([*rows(), *other]), [*rows(), *other], complete=True, waivers=waivers)
    assert [(sheet.device.serial, sheet.verdict) for sheet in sheets] == [
        (SERIAL, DeviceVerdict.ACCEPTED_WITH_WAIVER),
        ("B", DeviceVerdict.REJECTED),
    ]
    assert isinstance(sheets[0].device, DeviceInfo)
