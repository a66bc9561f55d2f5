"""The controller's side: the journal from the first second, the sheets and the summary at the end.

The controller is the only process that writes.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_netperf.attempts import ROWS_ATTRIBUTE, VERDICT_ATTRIBUTE
from pytest_netperf.errors import RecordError
from pytest_netperf.long_runs import Stretches
from pytest_netperf.plans import RECORDER, PlanFiles

if TYPE_CHECKING:
    from pytest_netperf.record.journal_line import JournalLine
    from pytest_netperf.record.run_record import RunRecord
    from pytest_netperf.record.schema import JournalLink, Planned, Row, RunInfo, Sheet
    from pytest_netperf.record.stretch import Stretch
    from pytest_netperf.report.sheet import SheetPaths
    from pytest_netperf.session import NetperfSession
    from pytest_netperf.store.writer import StoreWriter
    from pytest_netperf.summary import Terminal

__all__ = ["KEPT", "Recorder", "problem"]

KEPT = "netperf_kept"
"""Key of a worker's output: the namespaces that it keeps."""

_PHASES = ("setup", "call", "teardown")
_LETTERS = {
    "INCONCLUSIVE": ("inconclusive", "I", "yellow"),
    "INVALID": ("invalid", "V", "purple"),
    "NOT APPLICABLE": ("not applicable", "n", "yellow"),
}


def problem(config: pytest.Config, text: str) -> None:
    """Something that makes the run fail at its end, said there."""
    recorder = config.pluginmanager.get_plugin(RECORDER)
    if recorder is not None:
        recorder._problem(text)


class Recorder:
    """Hooks of the controller (or of the only process)."""

    def __init__(self, config: pytest.Config, session: NetperfSession) -> None:
        self._config = config
        self._options = session.options
        self._session = session
        self.run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        self._record: RunRecord | None = None
        self._planned: dict[str, list[Planned]] = {}
        self._plan_files = PlanFiles(self.run_id)
        self._sheets: list[tuple[Sheet, list[Path]]] = []
        self._written: dict[str, Path] = {}
        self._problems: list[str] = []
        self._kept: list[str] = []
        self._plan_known = False
        self._store: StoreWriter | None = None
        self._stretches = Stretches(self._stretch)
        session.keep_stretch = self._stretches.add
        self._not_stored: str | None = None
        self._inconclusive = 0
        self._is_told = False

    def plan(self, planned: list[Planned]) -> None:
        """What the run is expected to deliver. Later plans (of other workers) are the same."""
        self._plan_known = True
        if not self._planned:
            for row in planned:
                self._planned.setdefault(row.test, []).append(row)

    @property
    def planned(self) -> list[Planned] | None:
        """What the run is expected to deliver; None while that is not known."""
        return [row for rows in self._planned.values() for row in rows] if self._plan_known else None

    def _begin(self) -> None:
        """Begin the record with the plan. A run that ends before its first test leaves nothing."""
        if self._record is not None:
            return
        from pytest_netperf.record.run_record import RunRecord

        self._record = RunRecord(self._options.output, self.run_id, self._to_store())
        self._record.begin(self._run_info, self.planned)

    # Hooks, in the order in which pytest calls them

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist: tell a worker where to leave its plan, and what its long measurements show."""
        self._plan_files.hand_out(node.workerinput)
        self._stretches.hand_out(node.workerinput)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any) -> None:
        """xdist: take over a worker's plan."""
        planned = self._plan_files.take(node.workerinput)
        if planned is not None:
            self.plan(planned)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """xdist: a worker ended; one that crashed leaves no output."""
        self._kept += getattr(node, "workeroutput", {}).get(KEPT, [])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins: if the run is killed now, its rows are ABORTED and not merely missing."""
        if any(row.selected for rows in self._planned.values() for row in rows):
            self._begin()
        if nodeid in self._planned and self._record is not None:
            self._record.running(nodeid)

    def _stretch(self, stretch: Stretch) -> None:
        """A long measurement goes on, here or in a worker."""
        if self._record is not None:
            self._record.stretch(stretch)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Rows arrive: into the journal, then to whoever listens."""
        self._inconclusive += report.failed and getattr(report, VERDICT_ATTRIBUTE, None) == "INCONCLUSIVE"
        text = getattr(report, ROWS_ATTRIBUTE, None)
        rows: list[Row] = []
        if text is not None:
            import msgspec

            from pytest_netperf.record.schema import Row

            rows = msgspec.json.decode(text, type=list[Row])
        elif report.when not in _PHASES and report.nodeid in self._planned:  # "???": xdist's word for a dead worker
            rows = [self._stretches.crashed(planned) for planned in self._planned[report.nodeid]]
        if rows:
            self._stretches.over(report.nodeid)
            self._begin()  # which it has, unless the plan of a worker never came
        for row in rows:
            assert self._record is not None
            self._record.row(row, report.outcome)
            try:
                self._config.hook.pytest_netperf_row(config=self._config, row=row)
            except Exception as error:  # noqa: BLE001 - a reporter that breaks must not cost the run
                self._problem(f"a pytest_netperf_row hook: {type(error).__name__}: {error}")

    def _problem(self, text: str) -> None:
        """Something that makes the run fail at its end, said once."""
        if text not in self._problems:
            self._problems.append(text)

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """INCONCLUSIVE and INVALID are failures to pytest and to every other plugin, and NOT APPLICABLE is skipped,
        with their own word to people. (What pytest-rerunfailures runs again has its word: "rerun".)
        """
        verdict = getattr(report, VERDICT_ATTRIBUTE, None)
        if verdict not in _LETTERS or not (report.failed or report.skipped):
            return None
        category, letter, colour = _LETTERS[verdict]
        return category, letter, (verdict, {colour: True})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the journal, write the sheets from it, and let the exit code say what they say."""
        self._plan_files.close()
        self._stretches.close()
        if exitstatus == pytest.ExitCode.OK and not self._config.getoption("collectonly"):
            self._miss_devices()
        if self._record is None:
            if self._problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        sheets = self._record.end(int(exitstatus))
        self._emit(sheets)
        self._record.seal(self._sheets)
        if self._store is not None:
            self._not_stored = self._store.close()
        for problem in self._record.problems:
            self._problem(problem)
        if exitstatus == pytest.ExitCode.OK:
            session.exitstatus = self._exit_status(sheets)
        elif exitstatus == pytest.ExitCode.TESTS_FAILED and self._only_inconclusive(session, sheets):
            session.exitstatus = pytest.ExitCode.OK

    def _to_store(self) -> Callable[[JournalLine], None] | None:
        """Where each line of the journal goes next, once it is on the disk."""
        if self._options.store is None:
            return None
        from pytest_netperf.store.writer import StoreWriter

        self._store = StoreWriter(self._options.store, self.run_id)
        return self._store.put

    def _miss_devices(self) -> None:
        """A device that was asked for and that no test concerns is a mistake, not a success."""
        met = {row.device.serial for rows in self._planned.values() for row in rows}
        for serial in self._options.devices:
            if serial not in met and (self._planned or self._record is None):
                self._problem(f"--netperf-device {serial}: no test of this run concerns this device; nothing is proven")

    def _run_info(self, previous: JournalLink | None) -> RunInfo:
        from pytest_netperf.run_info import run_info

        session = self._session
        return run_info(self._config, self._options, session.bench, self.run_id, session.references, previous)

    def _emit(self, sheets: list[Sheet]) -> None:
        for each in sheets:
            sheet = self._with_sections(each)
            paths: list[Any] = []
            try:
                paths = self._config.hook.pytest_netperf_sheet(config=self._config, device=sheet.device, sheet=sheet)
            except Exception as error:  # noqa: BLE001 - one reporter that breaks must not cost the others' sheets
                self._problem(
                    str(error)
                    if isinstance(error, RecordError)
                    else f"a pytest_netperf_sheet hook, for {sheet.device.serial}: {type(error).__name__}: {error}"
                )
                with contextlib.suppress(RecordError):  # ours may have run before the one that broke, or not
                    paths = [self.pytest_netperf_sheet(sheet)]
            self._sheets.append((sheet, [Path(path) for path in paths if path is not None]))
        self._summarize()

    def _summarize(self) -> None:
        """Add all sheets to the summary of the CI job."""
        path = self._options.job_summary
        if path is None:
            return
        from pytest_netperf.report.markdown import sheets_markdown

        try:
            with path.open("ab") as file:
                file.write(sheets_markdown([sheet for sheet, _ in self._sheets]))
        except OSError as error:
            self._problem(f"--netperf-job-summary: cannot write {path}: {error.strerror or error}")

    def _with_sections(self, sheet: Sheet) -> Sheet:
        """The sheet with the sections of the user's own; a hook that breaks costs no more than those."""
        import msgspec

        from pytest_netperf.record.schema import Section
        from pytest_netperf.record.sheet_file import sealed

        name = "pytest_netperf_sheet_sections"
        try:
            asked = self._config.hook.pytest_netperf_sheet_sections
            answers = asked(config=self._config, device=sheet.device, sheet=sheet)
            plain = msgspec.to_builtins([section for answer in answers for section in answer])
            sections = msgspec.convert(plain, tuple[Section, ...])
            return sealed(msgspec.structs.replace(sheet, sections=sections)) if sections else sheet
        except Exception as error:  # noqa: BLE001 - a hook of the user's may raise anything
            self._problem(f"a {name} hook, for {sheet.device.serial}: {type(error).__name__}: {error}")
            return sheet

    @pytest.hookimpl(tryfirst=True)
    def pytest_netperf_sheet(self, sheet: Sheet) -> Path:
        """The files of the sheet, in the formats of --netperf-sheet."""
        serial = sheet.device.serial
        if serial not in self._written:
            paths = self._write_sheet(sheet)
            self._written[serial] = paths.main
            for problem in paths.problems:
                self._problem(problem)
        return self._written[serial]

    def _write_sheet(self, sheet: Sheet) -> SheetPaths:
        """Write the sheet where it belongs, or where there is room. Raises the first error when there is none."""
        from pytest_netperf.record.rescue import rescue_folders
        from pytest_netperf.report.sheet import write_sheet

        output = self._options.output if self._record is None else self._record.output
        try:
            return write_sheet(sheet, output, form=self._options.form)
        except RecordError as error:
            for folder in rescue_folders():
                with contextlib.suppress(RecordError):
                    paths = write_sheet(sheet, folder, form=self._options.form)
                    self._problem(f"{error}; this sheet is in {paths.folder}")
                    return paths
            raise

    def _exit_status(self, sheets: list[Sheet]) -> pytest.ExitCode:
        """Not 0 unless every required row that was asked for passed, and is on paper."""
        from pytest_netperf.judge.verdict import Verdict

        deselected = {row.id for rows in self._planned.values() for row in rows if not row.selected}
        allowed = {Verdict.PASS, Verdict.INCONCLUSIVE} if self._options.allow_inconclusive else {Verdict.PASS}
        for sheet in sheets:
            asked_for = {row.verdict for row in sheet.rows if row.required and row.id not in deselected}
            asked_for.discard(Verdict.NOT_APPLICABLE)
            if not asked_for or asked_for - allowed:
                return pytest.ExitCode.TESTS_FAILED
        broken = self._record is None or self._record.broken
        return pytest.ExitCode.TESTS_FAILED if broken or self._problems or not sheets else pytest.ExitCode.OK

    def _only_inconclusive(self, session: pytest.Session, sheets: list[Sheet]) -> bool:
        """Whether the user allowed what went wrong: every failed test is one whose worst verdict is INCONCLUSIVE."""
        if not self._options.allow_inconclusive or session.shouldfail or session.shouldstop:
            return False
        return session.testsfailed == self._inconclusive and self._exit_status(sheets) == pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """A line for each row, one for each device, and where the sheets are."""
        self._tell(terminalreporter, self._config.get_terminal_writer().fullwidth)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Plugins that put another terminal in the place of pytest's (pytest-rich) ask nobody for a summary."""
        if not self._is_told and self._config.pluginmanager.has_plugin("terminal"):
            from pytest_netperf.summary import OtherTerminal

            terminal = OtherTerminal()
            self._tell(terminal, terminal.width)

    def what_is_left(self) -> list[str] | None:
        """What a second Ctrl-C says; None when there is no record."""
        if self._record is None or (journal := self._record.path) is None:
            return None
        from pytest_netperf.interrupt import last_words
        from pytest_netperf.summary import shown

        return last_words(shown(journal))

    def _tell(self, terminal: Terminal, width: int) -> None:
        self._is_told = True
        record = self._record
        if record is None and not self._problems and not self._kept and not self._session.kept:
            return  # a project that measures nothing need not load what tells of it
        from pytest_netperf.summary import Summary, shown

        broken = record.broken if record is not None else None
        folder = shown(record.output if record is not None else self._options.output)
        url = " --store URL" * (not isinstance(self._options.store, Path))
        Summary(
            sheets=self._sheets,
            journal=record.path if record is not None else None,
            kept=self._kept + self._session.kept,
            without_row=self._without_row(),
            problems=([f"the journal is broken: {broken}"] if broken else []) + self._problems,
            not_stored=self._not_stored,
            store_command=f"pytest-netperf store sync {folder}{url}",
        ).write(terminal, width, self._config.option.verbose)

    def _without_row(self) -> list[str]:
        """The devices of the bench file that nothing was planned for; `_miss_devices` has those that were asked for."""
        if self._options.bench is None or self._options.devices or not self._sheets:
            return []
        planned = {row.device.serial for row in self.planned or ()} | {sheet.device.serial for sheet, _ in self._sheets}
        return [device.serial for device in self._session.bench.devices if device.serial not in planned]

    # pytest-html

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Columns of our own."""
        from pytest_netperf.report.pytest_html import header

        header(cells)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Value, limit and verdict of each test, and a link to its sheet."""
        from pytest_netperf.report.pytest_html import row

        page = Path(self._config.getoption("htmlpath") or ".")
        text = getattr(report, ROWS_ATTRIBUTE, None)
        row(cells, text, self._options.output, self.run_id, page.parent, f"sheet.{self._options.sheet[0]}")
