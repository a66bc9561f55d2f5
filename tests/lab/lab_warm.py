"""A Python of the guest that has imported what tests run there, and forks for each command: an import takes seconds.

The agent starts it with a socket (SOCK_SEQPACKET) and sends one JSON object per message, with the descriptors for
standard output and error:

    agent:  {"id": 1, "argv": ["-m", "pytest", ...], "env": {...}, "folder": "/"}
    warm:   {"id": 1, "pid": 123}   {"id": 1, "returncode": 0}

What it forks is a process as any other: its own session, signals as Python sets them, an interpreter that ends as it
always does. Only the modules are there already. What such a process starts (a keeper, a worker of pytest-xdist) is
executed, and imports for itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
from typing import Any

_ROOMS = ("bench", "links", "traffic", "observe", "judge", "record", "report")
_RUN_AS_MAIN = ("pytest_netperf.plugin", "pytest_netperf.cli")  # pytest rewrites the one, runpy runs the other


def _import() -> None:
    from _pytest.config import default_plugins

    names = ["pytest", "runpy", "pyroute2", "pyroute2.iwutil", "jinja2", "xdist.plugin", *_RUN_AS_MAIN]
    names += [f"_pytest.{name}" for name in default_plugins]
    for name in names:
        importlib.import_module(name)
    import pytest_netperf

    names = [module.name for module in pkgutil.iter_modules(pytest_netperf.__path__) if not module.ispkg]
    for room in _ROOMS:
        package = importlib.import_module(f"pytest_netperf.{room}")
        names += [f"{room}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]
    for name in names:
        if "strategies" in name:
            continue  # only property tests import these
        with contextlib.suppress(ImportError):  # of an extra that the guest has not
            importlib.import_module(f"pytest_netperf.{name}")
    from pytest_netperf.report.html_page import _template

    _template(None)  # to compile it is most of what the end of a run takes
    from pytest_netperf.links import owner

    # On two busy CPUs three keepers that start at once need more than these limits, made for a real machine, allow.
    owner._START_SECONDS, owner._CALL_SECONDS, owner._PORTS_CALL_SECONDS = 120.0, 240.0, 400.0
    for name in _RUN_AS_MAIN:
        del sys.modules[name]
        delattr(pytest_netperf, name.rpartition(".")[2])


def _serve(agent: socket.socket) -> dict[str, Any]:
    """Forks for each request; returns the request in the process that is to become it."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(agent, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == reader:
                    with contextlib.suppress(BlockingIOError):
                        os.read(reader, 4096)
                    while children:
                        pid, status = os.waitpid(-1, os.WNOHANG)
                        if not pid:
                            break
                        code = os.waitstatus_to_exitcode(status)
                        agent.send(json.dumps({"id": children.pop(pid), "returncode": code}).encode())
                    continue
                data, fds, _, _ = socket.recv_fds(agent, 1 << 20, 2)
                if not data:
                    os._exit(0)  # the agent has gone
                request: dict[str, Any] = json.loads(data)
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    os.close(reader)
                    os.close(writer)
                    for number, fd in enumerate(fds, start=1):
                        os.dup2(fd, number)
                        os.close(fd)
                    return request
                for fd in fds:
                    os.close(fd)
                children[pid] = request["id"]


def main() -> None:
    """The argument is the descriptor of the socket."""
    agent = socket.socket(fileno=int(sys.argv[1]))
    agent.set_inheritable(False)
    _import()
    gc.collect()
    gc.freeze()
    request = _serve(agent)

    os.setsid()
    agent.send(json.dumps({"id": request["id"], "pid": os.getpid()}).encode())
    agent.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    kind, what, *arguments = request["argv"]
    sys.path[0] = request["folder"] if kind == "-m" else ""
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
