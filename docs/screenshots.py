"""Takes the images of the documentation anew: python docs/screenshots.py (or ./run docs images).

Each shows what a real run made, on simulated links of this machine: the sheets as HTML and PDF, the batch page, and
what pytest prints. It needs iperf3, chromium, pdftoppm and the extra `dev`. A run that
came out otherwise than it must, because this machine was busy, is made again.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
LARGEST_BYTES = 300_000
COLUMNS = 132
TRIES = 6
RUNNING = re.compile(r"(1[2-9]|2\d) of 31 s")
QUIET = ("-q", "--tb=no", "--netperf-live=off")

BENCH = """
[station]
name = "bench-1"
location = "Incoming goods, table 2"

[[device]]
serial = "BOX-0008"
model = "BOX-4"
batch = "2026-48"

  [[device.link]]
  name = "lan1"
  speed = "100M"
  simulated = true

  [[device.link]]
  name = "lan2"
  speed = "100M"
  simulated = true
  fault = { rate = "80 Mbps" }
"""
TESTS = """
import pytest


@pytest.mark.netperf_limit(throughput=">= 90 Mbps", retransmits="<= 500", source="data sheet 4.2")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)
"""
SWEEP_BENCH = """
[[device]]
serial = "BOX-0009"
model = "BOX-4"

  [[device.link]]
  name = "lan1"
  speed = "100M"
  simulated = true
"""
SWEEP_TESTS = """
import pytest


@pytest.mark.netperf_link(mss=[148, 276, 536, 1048, 1460])
@pytest.mark.netperf_limit(throughput=">= 90 % of ceiling")
def test_segment_sizes(iperf3):
    iperf3.tcp()
"""
LOT_TESTS = """
import pytest


@pytest.mark.netperf_limit(throughput=">= 88 Mbps")
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_line_rate(iperf3, direction):
    iperf3.tcp(direction=direction)
"""
LOT_PORTS_MBPS = [99, 99.4, 99.2, 99.8, 98.9, 99.5, 99.3, 99.1, 90, 99.6, 99.2, 99]  # one is below its limit


def main() -> int:
    """Make the runs and their images; 0 when every image is there and small."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sheet_and_terminal(folder / "acceptance")
        sweep(folder / "sweep")
        batch(folder / "lot")
        live(folder / "live")
    too_large = [path.name for path in IMAGES.glob("*.png") if path.stat().st_size > LARGEST_BYTES]
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")
    if too_large:
        print(f"larger than {LARGEST_BYTES // 1000} kB: {', '.join(too_large)}", file=sys.stderr)
    return 1 if too_large else 0


def sheet_and_terminal(folder: Path) -> None:
    """A device with a bad port: REJECTED."""
    text, sheet = run_until(folder, {"BOX-0008": "REJECTED"}, BENCH, TESTS, "--netperf-duration=10", *QUIET)
    html = sheet.with_name("sheet.html")
    browse(html, "sheet.png", 1000, 1060)
    browse(html, "sheet-dark.png", 1000, 1060, dark=True)
    page = folder / "page"
    subprocess.run(
        ["pdftoppm", "-r", "80", "-png", "-singlefile", sheet.with_name("sheet.pdf"), page], check=True, timeout=60
    )
    with Image.open(page.with_suffix(".png")) as image:
        image.crop((0, 0, image.width, round(image.height * 0.72))).save(page.with_suffix(".png"))
    shrink(page.with_suffix(".png"), IMAGES / "sheet-pdf.png")
    draw_terminal(text, "terminal.png", folder)


def sweep(folder: Path) -> None:
    """Segment sizes, with the ceiling that follows from each."""
    _, sheet = run_until(folder, {"BOX-0009": "ACCEPTED"}, SWEEP_BENCH, SWEEP_TESTS, "--netperf-duration=3", *QUIET)
    html = sheet.with_name("sheet.html").read_text("utf-8")
    found = re.search(r"<h2[^>]*>\s*Sweeps?\b.*?(?=<h2|</main>|</body>)", html, re.DOTALL)
    assert found is not None, "the sheet has no sweep"
    head = html[: html.index("<body")]
    part = folder / "sweep.html"
    part.write_text(f"{head}<body><main>{found[0]}</main></body></html>", "utf-8")
    browse(part, "sweep.png", 1000, 900)


def batch(folder: Path) -> None:
    """Twelve devices, one of them rejected."""
    bench = "".join(
        f'[[device]]\nserial = "LOT-{number:04}"\nmodel = "BOX-4"\n[[device.link]]\nname = "lan1"\nspeed = "100M"\n'
        f'simulated = true\nfault = {{ rate = "{mbps} Mbps" }}\n'
        for number, mbps in enumerate(LOT_PORTS_MBPS, 1)
    )
    verdicts = {
        f"LOT-{number:04}": "REJECTED" if mbps < 95 else "ACCEPTED" for number, mbps in enumerate(LOT_PORTS_MBPS, 1)
    }
    run_until(folder, verdicts, bench, LOT_TESTS, "--netperf-duration=2", *QUIET)
    subprocess.run(
        [sys.executable, "-m", "pytest_netperf.cli", "batch", "netperf-results", "--output", "lot"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=False,  # 1: not every device is accepted
        timeout=120,
    )
    browse(next((folder / "lot").rglob("batch.html")), "batch.png", 1000, 1060)


def live(folder: Path) -> None:
    """What a terminal shows in the middle of a run."""
    write(folder, BENCH, TESTS)
    options = ("--netperf-duration=30", "-onetperf_reference=off", "--no-header", "-n2", "--netperf-slots=2")
    text = printed(folder, *options, until=lambda text: len(RUNNING.findall(last_frame(text))) == 2)
    write_live = text[: text.index("\x1b[?25l")] + last_frame(text)
    draw_terminal(write_live, "live.png", folder)


def last_frame(text: str) -> str:
    """What the live view shows last; it clears each line before it draws it anew."""
    return re.split(r"\x1b\[2K", text)[-1]


# ---- runs ------------------------------------------------------------------------------------------------------------


def write(folder: Path, bench: str, tests: str) -> None:
    """A suite as a user has it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "bench.toml").write_text(bench, "utf-8")
    (folder / "test_acceptance.py").write_text(tests, "utf-8")


def run_until(folder: Path, verdicts: dict[str, str], bench: str, tests: str, *options: str) -> tuple[str, Path]:
    """What pytest printed in a run with these verdicts, and the last of its sheets."""
    for _ in range(TRIES):
        write(folder, bench, tests)
        text = printed(folder, "--netperf-sheet=html,pdf", "--netperf-batch=2026-48", "--netperf-operator=qa", *options)
        sheets = sorted(folder.glob("netperf-results/*/*/sheet.json"))
        read = {path.parts[-3]: json.loads(path.read_text("utf-8")) for path in sheets}
        found = {serial: sheet["verdict"] for serial, sheet in read.items()}
        rows = {row["verdict"] for sheet in read.values() for row in sheet["rows"]}
        if found == verdicts and (len(found) > 1 or rows <= {"PASS", "FAIL"}):
            return text, sheets[-1]
        print(f"again, because this machine was busy: {found or text[-1000:]}", file=sys.stderr)
    raise SystemExit(
        f"{TRIES} times in a row a run came out otherwise than {verdicts}: run it when the machine is idle"
    )


def printed(folder: Path, *options: str, until: Callable[[str], bool] | None = None) -> str:
    """What pytest prints at a terminal; ``until`` says when that is enough, and the run is ended."""
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--color=yes"]
    command += ["--netperf-bench=bench.toml", *options]
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        chunks: list[bytes] = []
        while True:
            if until is not None and until(b"".join(chunks).decode("utf-8", "replace")):
                process.kill()
                break
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other end of a pty is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(master)
    return b"".join(chunks).decode("utf-8", "replace")


# ---- images ----------------------------------------------------------------------------------------------------------


def browse(page: Path, name: str, width: int, height: int, *, dark: bool = False) -> None:
    """The top of a page, as a browser shows it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("chromium is not installed: sudo apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        shot = Path(profile) / "shot.png"
        command = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={profile}", f"--window-size={width},{height}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--screenshot={shot}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        shrink(shot, IMAGES / name)


def draw_terminal(text: str, name: str, folder: Path) -> None:
    """Text with colours, as a terminal shows it."""
    from rich.console import Console
    from rich.text import Text

    with (folder / "console.txt").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        lines = re.sub(r"\x1b\[\?\d+[hl]", "", text.replace("\r", "")).strip("\n").splitlines()
        console.print(Text.from_ansi("\n".join(lines)))
        svg = console.export_svg(title="pytest --netperf-bench bench.toml")
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    page = folder / f"{name}.html"
    page.write_text(f"<style>body {{ margin: 0 }} svg {{ width: 1000px }}</style>{svg}", "utf-8")
    browse(page, name, 1000, round(1000 * height / width) + 300)  # what is left empty is cut off


def shrink(source: Path, target: Path) -> None:
    """The same image with at most 128 colours, without empty rows below."""
    image = Image.open(source).convert("RGB")
    corner = image.getpixel((image.width - 1, image.height - 1))
    columns = range(0, image.width, 7)
    used = [y for y in range(0, image.height, 4) if any(image.getpixel((x, y)) != corner for x in columns)]
    image = image.crop((0, 0, image.width, min(image.height, max(used, default=0) + 16)))
    image.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
