"""Programs that are called iperf3 and are not what they seem, for the cases of the selftest."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from pytest_netperf.errors import TrafficError

__all__ = ["install"]

_ELSEWHERE_RATE: Final = "930M"

_OTHER: Final = """#!/bin/sh
echo "iperf version 2.1.8 (12 August 2022) pthreads"
"""

_NONSENSE: Final = """#!/bin/sh
case " $* " in
*" -c "*) echo "Segmentation fault (core not dumped), see you" ;;
*) exec {iperf3} "$@" ;;
esac
"""

# Its client measures over the loopback of its own namespace, at a rate that could be true, and prints what it got.
_ELSEWHERE: Final = """#!{python} -SE
import os, subprocess, sys, time
arguments = sys.argv[1:]
if "-c" not in arguments:
    os.execv({iperf3!r}, ["iperf3", *arguments])
port = arguments[arguments.index("-p") + 1]
subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
server = subprocess.Popen([{iperf3!r}, "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
time.sleep(0.3)
arguments[arguments.index("-c") + 1] = "127.0.0.1"
done = subprocess.run([{iperf3!r}, *arguments, "-b", {rate!r}])
server.kill()
sys.exit(done.returncode)
"""


def install(name: str, folder: Path) -> None:
    """Put the iperf3 of this name into a folder. Raises TrafficError where the real one, which it needs, is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    real = shutil.which("iperf3")
    if real is None:
        raise TrafficError("iperf3 is not installed (not found in PATH): `sudo apt-get install iperf3`")
    texts = {
        "other": _OTHER,
        "nonsense": _NONSENSE.format(iperf3=shlex.quote(real)),
        "elsewhere": _ELSEWHERE.format(iperf3=real, python=sys.executable, rate=_ELSEWHERE_RATE),
    }
    program = folder / "iperf3"
    program.write_text(texts[name], "utf-8")
    program.chmod(0o755)
