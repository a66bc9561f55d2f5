"""What lending two ports costs: claimed, moved, proved and brought home, field by field; and what bench check takes.

By hand is what a person would type: the ports moved, given addresses, taken up, and moved back when both had a carrier,
by `ip` calls; nothing proved, written down or compared. Rounds are interleaved. Without PORTS a veth pair stands in for
two cards and their cable, and eight ends of such pairs for the ports of bench check.

    python benchmarks/ports.py [--smoke] [PORT PORT]    (root, iproute2; the PORTs are cabled to each other, and down)
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_netperf.links.physical import PhysicalPair

TRAFFIC_SECONDS = 10
TEST = f"""
import pytest

@pytest.mark.netperf_limit(throughput=">= 1 Mbps")
def test_rate(iperf3):
    iperf3.tcp(duration={TRAFFIC_SECONDS}, omit=0, bitrate="10 Mbps")
"""


def sh(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def veths(count: int) -> Iterator[list[tuple[str, str]]]:
    """Pairs that stand in for cabled ports."""
    pairs = [(f"npbench{number}a", f"npbench{number}b") for number in range(count)]
    try:
        for a, b in pairs:
            sh("ip", "link", "add", a, "type", "veth", "peer", "name", b)
        yield pairs
    finally:
        for a, _ in pairs:
            subprocess.run(["ip", "link", "delete", a], check=False, stderr=subprocess.DEVNULL)


def bench_file(folder: str, pairs: list[tuple[str, str]]) -> Path:
    text = '[[device]]\nserial = "BENCHMARK"\n'
    for number, ports in enumerate(pairs):
        text += f'[[device.link]]\nname = "p{number}"\nspeed = "100M"\n'
        for end, port in zip("ab", ports, strict=True):
            text += f'{end} = {{ port = "altname-{port}", allow_virtual = true }}\n'
    path = Path(folder, "bench.toml")
    path.write_text(text)
    return path


def ours(ports: tuple[str, str], parts: dict[str, list[float]], **allowed: bool) -> float:
    """One round; what took how long goes to ``parts``. ``allow_addressed=True`` as in a bench file."""
    spent: dict[str, float] = {}

    def timed(name, function):
        def call(*args, **kwargs):
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - started

        return call

    ends = {
        end: {"port": f"altname-{port}", "allow_virtual": True, **allowed}
        for end, port in zip("ab", ports, strict=True)
    }
    spec = {"mtu": 1500, "ports": ends, "holder": {"pid": os.getpid(), "command": "benchmarks/ports.py"}}
    pair_class = type("Timed", (PhysicalPair,), {
        "refuse": timed("look whether they may be taken", PhysicalPair.refuse),
        "_lend": timed("write down what they are, and move them", PhysicalPair._lend),
        "prove": timed("carrier and proof", PhysicalPair.prove),
    })  # fmt: skip
    started = time.perf_counter()
    pair = pair_class(32_000, spec, lambda: False)
    up = time.perf_counter()
    pair.close()
    ended = time.perf_counter()
    spent["bring them home, and compare"] = ended - up
    spent["claims and the rest"] = ended - started - sum(spent.values())
    for name, seconds in spent.items():
        parts.setdefault(name, []).append(seconds)
    return ended - started


def by_hand(ports: tuple[str, str]) -> float:
    started = time.perf_counter()
    spaces = [f"npbench-{end}" for end in "ab"]
    for port, space, address in zip(ports, spaces, ("198.18.250.1", "198.18.250.2"), strict=True):
        sh("ip", "netns", "add", space)
        sh("ip", "link", "set", port, "netns", space)
        sh("ip", "-n", space, "address", "add", f"{address}/30", "dev", port)
        sh("ip", "-n", space, "link", "set", port, "up")
    for port, space in zip(ports, spaces, strict=True):
        carrier = ["ip", "netns", "exec", space, "cat", f"/sys/class/net/{port}/carrier"]
        while subprocess.run(carrier, check=False, capture_output=True).stdout != b"1\n":
            time.sleep(0.01)
    for port, space in zip(ports, spaces, strict=True):
        sh("ip", "-n", space, "link", "set", port, "netns", "1")
        sh("ip", "netns", "delete", space)
    return time.perf_counter() - started


def lend(ports: tuple[str, str], rounds: int) -> float:
    """Median of a pair claimed, moved, proved and brought home."""
    parts: dict[str, list[float]] = {}
    times: list[tuple[float, float]] = []
    ours(ports, {})  # loads pyroute2
    for _ in range(rounds):
        times.append((ours(ports, parts), by_hand(ports)))
    median = statistics.median(mine for mine, _ in times)
    ratio = statistics.median(mine / theirs for mine, theirs in times)
    print(
        f"  a pair claimed, moved, proved and brought home: median {median:.3f} s, "
        f"{min(times)[0]:.3f} to {max(times)[0]:.3f} ({rounds} rounds)"
    )
    for name, each in parts.items():
        print(f"    {statistics.median(each):7.3f} s  {name}")
    print(f"  ours / the same by hand, without proof and comparison: median {ratio:.2f}", flush=True)
    return median


def share_of_a_test(ports: tuple[str, str], pair_seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench_file(folder, [ports])
        Path(folder, "test_ports.py").write_text(TEST)
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-mpytest", "-q", "-pno:cacheprovider", "-onetperf_reference=off",
             "--netperf-bench=bench.toml"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall = time.perf_counter() - started
        assert done.returncode == 0, done.stdout + done.stderr
    print(
        f"  a run of one test with {TRAFFIC_SECONDS} s of traffic: {wall:.2f} s, of which the pair is "
        f"{pair_seconds / wall:.1%}",
        flush=True,
    )


def bench_check(rounds: int) -> None:
    times = []
    with veths(4) as pairs, tempfile.TemporaryDirectory() as folder:
        for port in (port for pair in pairs for port in pair):
            sh("ip", "link", "set", port, "up")
        path = bench_file(folder, pairs)
        for _ in range(rounds + 1):
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "pytest_netperf.cli", "bench", "check", "--json", str(path)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            times.append(time.perf_counter() - started)
            assert json.loads(done.stdout)["good"], done.stdout + done.stderr
    print(
        f"  bench check, 8 ports: median {statistics.median(times[1:]):.2f} s, {max(times[1:]):.2f} at most (goal <= 2)"
    )


def main() -> None:
    smoke = "--smoke" in sys.argv
    ports = tuple(argument for argument in sys.argv[1:] if argument != "--smoke")
    assert len(ports) in (0, 2), "give no port, or two that are cabled to each other"
    rounds = 2 if smoke else 11
    print("ports")
    with tempfile.TemporaryDirectory() as state, contextlib.ExitStack() as stack:
        os.environ["NETPERF_STATE"] = state
        if not ports:
            bench_check(rounds)
            (ports,) = stack.enter_context(veths(1))
        median = lend(ports, rounds)
        share_of_a_test(ports, median)


if __name__ == "__main__":
    main()
