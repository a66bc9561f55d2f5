"""The console command as words: help, and wrong use in one line."""

from __future__ import annotations

import pytest

from pytest_netperf import cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "pytest-netperf: there is no command 'nosuch': there are sheet, sign, export,"),
        (["dcotor"], "pytest-netperf: there is no command 'dcotor': did you mean doctor?; see"),
        (["--nope"], "pytest-netperf: the following arguments are required: COMMAND; see `pytest-netperf --help`"),
        (["sheet"], "pytest-netperf sheet: the following arguments are required: JOURNAL; see `pytest-netperf sheet"),
        (["bench"], "pytest-netperf bench: the following arguments are required: COMMAND; see"),
        (["doctor", "extra"], "pytest-netperf: unrecognized arguments: extra; see"),
        (["selftest", "-n", "many"], "pytest-netperf selftest: argument -n: invalid int value: 'many'; see"),
    ],
)
def test_wrong_use_is_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    shown = capsys.readouterr()
    assert end.value.code == 2
    assert shown.err.startswith(said)
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_without_arguments_it_shows_what_there_is(capsys):
    assert cli.main([]) == 2
    shown = capsys.readouterr()
    assert "look at every precondition" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize("command", cli._COMMANDS, ids=lambda command: command.name)
def test_help_explains_the_command_and_its_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command.name, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 0
    assert f"{command.help[1:]}." in shown
    assert f"Exit code: 0 {command.good};" in shown
    assert (f"; 1 {command.bad}; 2" in shown) is bool(command.bad)
