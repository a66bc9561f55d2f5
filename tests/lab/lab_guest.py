"""A QEMU guest with cabled pairs of real network cards: boot it, run commands in it, pull its cables, take its cards.

Software emulation, so that it works in a container and on a rented machine. The guest runs Debian's kernel over this
machine's own files (read-only under a RAM layer), therefore this checkout and its virtual environment are the same
paths inside; what Python imports comes from a copy of its own (`lab_python`). Both ends die with each other: QEMU with
the process that started it, the guest with the serial port.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_agent import PORT_NAME
from lab_cards import PAIRS, LabPair, LabPort, device
from lab_initramfs import ROOT_TAG, SHARE_TAG, write_initramfs
from lab_kernel import GuestKernel
from lab_python import PYTHON_PATH, write_python_disk

__all__ = ["PAIRS", "Done", "Guest", "GuestError", "LabPair", "LabPort", "Running"]

_CHECKOUT = Path(__file__).resolve().parents[2]
_BOOT_SECONDS = 240  # 25 s on an idle machine
_COMMAND_SECONDS = 120


class GuestError(Exception):
    """The guest did not do what it was asked; ends with the last lines of its console."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended in the guest."""

    command: Sequence[str]
    returncode: int
    stdout: str
    stderr: str

    def check(self) -> str:
        """Its standard output; GuestError with all it said when it failed."""
        if self.returncode != 0:
            raise GuestError(
                f"in the guest `{' '.join(self.command)}` ended with {self.returncode}:\n{self.stdout}\n{self.stderr}"
            )
        return self.stdout


class Running:
    """A command that runs in the guest, in a process group of its own."""

    def __init__(self, guest: Guest, number: int, command: Sequence[str]) -> None:
        self._guest = guest
        self._number = number
        self._command = command

    @property
    def pid(self) -> int:
        """Its process id in the guest, once it has started."""
        return int(self._guest._answer(self._number, "pid", 60)["pid"])

    @property
    def has_ended(self) -> bool:
        return (self._number, "returncode") in self._guest._answers

    def send_signal(self, number: int, *, group: bool = False) -> None:
        """A signal to the process, or to its whole group as a terminal's Ctrl-C."""
        self._guest._send({"id": self._number, "signal": int(number), "group": group})

    def wait(self, timeout_s: float = _COMMAND_SECONDS) -> Done:
        """What became of it. Kills its group and raises GuestError when it takes longer."""
        try:
            end = self._guest._answer(self._number, "returncode", timeout_s)
        except TimeoutError:
            self.send_signal(signal.SIGKILL, group=True)
            what = f"in the guest `{' '.join(self._command)}` had not ended after {timeout_s:g} s and was killed"
            with contextlib.suppress(TimeoutError):
                end = self._guest._answer(self._number, "returncode", 20)
                what += f"; it had said:\n{end['stdout']}\n{end['stderr']}"
            raise GuestError(f"{what}\n{self._guest.console()}") from None
        return Done(self._command, end["returncode"], end["stdout"], end["stderr"])


class Guest:
    """Boots on `start`; one of them serves all tests of a session."""

    def __init__(self, kernel: GuestKernel, pairs: Sequence[LabPair], memory_mib: int = 2048) -> None:
        self.pairs = {pair.model: pair for pair in pairs}
        self.boot_seconds = 0.0
        self.release = ""
        self._kernel = kernel
        self._memory_mib = memory_mib
        self._numbers = itertools.count(1)
        self._answers: dict[tuple[int, str], dict[str, Any]] = {}
        self._news = threading.Condition()
        self._begun: list[Running] = []
        self._gone = False
        self._qmp_lock = threading.Lock()

    def start(self) -> None:
        """Boots it and waits until it takes commands. Raises GuestError."""
        self.folder = Path(tempfile.mkdtemp(prefix="netperf-lab-"))
        self.share = self.folder / "share"
        self.share.mkdir()
        agent = [str(Path(sys.executable).resolve()), "-Su", str(Path(__file__).with_name("lab_agent.py"))]
        write_initramfs(self.folder / "initramfs", self._kernel, agent)
        write_python_disk(self.folder / "python")
        self._serial, serial = socket.socketpair()
        self._control, control = socket.socketpair()
        began = time.monotonic()
        # QEMU dies with this process.
        command = ["setpriv", "--pdeathsig", "KILL", *self._qemu(serial.fileno(), control.fileno())]
        with (self.folder / "qemu").open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=(serial.fileno(), control.fileno()),
                start_new_session=True,
            )
        serial.close()
        control.close()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._qmp_lines = self._control.makefile("rb")
            self._control.settimeout(30)
            self._qmp_read("QMP")
            self.qmp("qmp_capabilities")
            self._wait_ready()
        except (TimeoutError, OSError) as error:
            console = self.console()
            self.close()
            raise GuestError(f"the guest did not boot within {_BOOT_SECONDS} s ({error}){console}") from None
        except GuestError:
            self.close()
            raise
        self.boot_seconds = time.monotonic() - began

    def reset(self) -> None:
        """Presses its reset button, and waits until it takes commands again. Raises GuestError."""
        self._begun.clear()
        self._answers.clear()
        self.qmp("set-action", reboot="reset")
        self.qmp("system_reset")
        try:
            self._wait_ready()
        except TimeoutError as error:
            raise GuestError(f"the guest did not boot again ({error}){self.console()}") from None
        # Not earlier: the BIOS sees that it has run before, and resets once more.
        self.qmp("set-action", reboot="shutdown")

    def _wait_ready(self) -> None:
        self.release = str(self._answer(0, "ready", _BOOT_SECONDS)["ready"])
        self._send({"warm_up": {"python": sys.executable, "path": PYTHON_PATH}})

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = _COMMAND_SECONDS,
        env: Mapping[str, str] | None = None,
        folder: str = "/lab",
        warm: bool = False,
    ) -> Done:
        """Runs a command in the guest to its end, at most so long."""
        return self.begin(command, env=env, folder=folder, warm=warm).wait(timeout_s)

    def begin(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: str = "/lab",
        warm: bool = False,
    ) -> Running:
        """Starts a command in the guest and returns at once. ``warm``: by the Python that has its modules already."""
        number = next(self._numbers)
        self._send(
            {
                "id": number,
                "command": list(command),
                "env": {"PYTHONPATH": PYTHON_PATH, **(env or {})},
                "folder": folder,
                "warm": warm,
            }
        )
        running = Running(self, number, command)
        self._begun.append(running)
        return running

    def end_commands(self) -> list[str]:
        """Kills what still runs of what was begun; returns these commands."""
        left = [each for each in self._begun if not each.has_ended]
        self._begun.clear()
        for each in left:
            each.send_signal(signal.SIGKILL, group=True)
            with contextlib.suppress(TimeoutError):
                self._answer(each._number, "returncode", 20)
        return [" ".join(each._command) for each in left]

    def push(self, files: Mapping[str, str], folder: str) -> str:
        """Text files into a folder of their own; returns its path in the guest."""
        for name, text in files.items():
            path = self.share / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return f"/lab/{folder}"

    def pull(self, path: str) -> Path:
        """A file or folder that the guest wrote below /lab, as this machine's path."""
        return self.share / Path(path).relative_to("/lab")

    def qmp(self, execute: str, **arguments: Any) -> Any:
        """A command to QEMU itself; what it returned."""
        with self._qmp_lock:
            try:
                self._control.sendall(json.dumps({"execute": execute, "arguments": arguments}).encode())
                answer = self._qmp_read("return", "error")
            except (TimeoutError, OSError) as error:
                raise GuestError(f"QEMU did not answer to {execute} ({error}){self.console()}") from None
        if "error" in answer:
            raise GuestError(f"QEMU refused {execute} {arguments}: {answer['error']['desc']}")
        return answer["return"]

    def cable(self, pair: LabPair, *, plugged: bool) -> None:
        """Plugs the cable of a pair in, or pulls it: either takes the carrier of both ends."""
        for port in pair.ports:
            self.qmp("set_link", name=port.id, up=plugged)

    def take_card(self, port: LabPort) -> None:
        """Takes a card off the bus. The guest's kernel has some seconds to let go of it."""
        self.qmp("device_del", id=port.id)

    def give_card(self, port: LabPort) -> None:
        """Plugs a card in that was taken."""
        self.qmp("device_add", **device(port))

    def cards(self) -> set[str]:
        """The ids of the cards that sit in their slots now."""
        listed = self.qmp("qom-list", path="/machine/peripheral")
        return {entry["name"] for entry in listed if entry["name"].startswith("card")}

    def console(self) -> str:
        """The last lines of QEMU and of the guest's console, as the end of a message."""
        text = ""
        for name in ("qemu", "console"):
            with contextlib.suppress(OSError):
                lines = (self.folder / name).read_text(errors="replace").splitlines()[-60:]
                text += "".join(f"\n  {name}: {line}" for line in lines if line.strip())
        return text

    def close(self) -> None:
        """Ends it, at once: nothing in it is worth a shutdown."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._serial.close()
        self._control.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _qemu(self, serial: int, control: int) -> list[str]:
        shared = "security_model=none,multidevs=remap"
        command = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "sockets=1,cores=2",
            "-m", str(self._memory_mib),
            "-kernel", str(self._kernel.image), "-initrd", str(self.folder / "initramfs"),
            # Mitigations empty the emulator's caches at each system call. Its TSC is one for all CPUs.
            # QEMU's e1000e loses the interrupt that says "the link changed" when it has several (IntMode 2).
            "-append", "console=ttyS0 loglevel=4 panic=-1 mitigations=off tsc=reliable random.trust_cpu=on "
            # Each process at the same addresses, or the emulator translates its code again; small pages, or it
            # forgets all of them at each change of one.
            "norandmaps transparent_hugepage=never module_blacklist=ahci,lpc_ich,i2c_i801,8139too e1000e.IntMode=1,1",
            "-chardev", f"file,id=console,path={self.folder / 'console'}", "-serial", "chardev:console",
            "-chardev", f"socket,id=control,fd={control}", "-mon", "chardev=control,mode=control",
            "-drive", f"file={self.folder / 'python'},format=raw,if=virtio,readonly=on",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,fd={serial}", "-device", f"virtserialport,chardev=agent,name={PORT_NAME}",
            "-fsdev", f"local,id=root,path=/,readonly=on,{shared}",
            "-device", f"virtio-9p-pci,fsdev=root,mount_tag={ROOT_TAG}",
            "-fsdev", f"local,id=share,path={self.share},{shared}",
            "-device", f"virtio-9p-pci,fsdev=share,mount_tag={SHARE_TAG}",
        ]  # fmt: skip
        for chassis, pair in enumerate(self.pairs.values(), start=1):
            for end, port in enumerate(pair.ports):
                if port.slot:
                    slot = f"pcie-root-port,id={port.slot},chassis={2 * chassis + end},slot={2 * chassis + end}"
                    command += ["-device", slot]
                command += ["-netdev", f"hubport,id=cable-{port.id},hubid={chassis}"]
                command += ["-device", json.dumps(device(port))]
        return command

    def _listen(self) -> None:
        """Collects what the guest says until it is gone."""
        rest = b""
        while True:
            try:
                data = self._serial.recv(65536)
            except OSError:
                data = b""
            with self._news:
                if not data:
                    self._gone = True
                    self._news.notify_all()
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    kind = next(kind for kind in ("ready", "pid", "returncode") if kind in message)
                    self._answers[message.get("id", 0), kind] = message
                self._news.notify_all()

    def _answer(self, number: int, kind: str, timeout_s: float) -> dict[str, Any]:
        """The guest's answer of this kind, which stays readable. TimeoutError; GuestError when the guest is dead."""
        key = (number, kind)
        with self._news:
            came = self._news.wait_for(lambda: key in self._answers or self._gone, timeout_s)
            if key in self._answers:
                return self._answers[key]
        if came:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            code = self._process.poll()
            raise GuestError(f"the guest is dead ({'QEMU runs' if code is None else f'QEMU: {code}'}){self.console()}")
        raise TimeoutError(f"no {kind} after {timeout_s:g} s")

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._serial.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise GuestError(f"the guest is dead ({error.strerror}){self.console()}") from None

    def _qmp_read(self, *wanted: str) -> dict[str, Any]:
        """The next message with one of these keys; events in between are passed over."""
        while line := self._qmp_lines.readline():
            message: dict[str, Any] = json.loads(line)
            if any(key in message for key in wanted):
                return message
        raise OSError("it closed the connection")
