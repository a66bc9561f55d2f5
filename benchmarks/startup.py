"""The plugin's share of pytest's start-up in a project that does not use it, with and without it, interleaved.

python benchmarks/startup.py [--smoke]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    rounds = 3 if "--smoke" in sys.argv else 30
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        for _ in range(rounds + 1):
            for name, options in (("with", []), ("without", ["-p", "no:netperf"])):
                started = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}  # the first one compiles
    share = statistics.median(a - b for a, b in zip(times["with"][1:], times["without"][1:], strict=True))
    print(f"pytest with the plugin {medians['with'] * 1e3:.0f} ms, without {medians['without'] * 1e3:.0f} ms")
    print(f"  the plugin's share: median difference {share * 1e3:.1f} ms (goal <= 15 ms)")


if __name__ == "__main__":
    main()
