"""One libiperf run, in a process of its own: ``python -P -m pytest_netperf.traffic.libiperf_child JSON``.

The PyPI package ``iperf3`` loads the library and sets what it knows; the rest is set by the library's own functions.
What the package does badly is not used:

- ``run()`` points the process's stdout at a pipe that is read only after the run, so that a document beyond 64 KiB
  never ends. Here the library writes to this process's stdout, which the parent reads all the time.
- A second ``run()`` of the same object fails. Here a process runs once and is gone.
- Its destructor talks to sockets that are closed by then. Here the process leaves without it.

The document goes to stdout, an error to stderr in the words of iperf3, with exit code 1. SIGINT makes the library print
what it has, as it does in the iperf3 program.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any, NoReturn

__all__ = ["LIBRARY", "main"]

LIBRARY = "libiperf.so.0"


def main() -> NoReturn:
    """Do what the JSON argument says: probe the library, or run one end of a test."""
    asked = json.loads(sys.argv[1])
    if "probe" in asked:
        print(json.dumps(probe(asked["probe"])))
        sys.exit(0)
    end = _new_end(asked["role"])
    for name, value in asked["properties"].items():
        setattr(end, name, value)
    for name, value in asked["functions"].items():
        call(end, name, value)
    if asked.get("cpu") is not None:
        os.sched_setaffinity(0, {asked["cpu"]})
    _run(end, end.lib.iperf_run_client if asked["role"] == "c" else end.lib.iperf_run_server)


def probe(functions: list[str]) -> dict[str, Any]:
    """What is installed: the library's version, which of the functions it has, and whether it can do zerocopy.

    ``missing`` says instead what is not there: "package" or "library", with the ``error``.
    """
    try:
        import iperf3
    except ImportError as error:
        return {"missing": "package", "error": str(error)}
    if not hasattr(iperf3, "Client"):
        return {"missing": "package", "error": f"{iperf3.__file__} is another module of that name"}
    try:
        end = _new_end("c")
    except (OSError, AttributeError) as error:
        return {"missing": "library", "error": str(error)}
    return {
        "version": _version(end),
        "functions": [name for name in functions if hasattr(end.lib, name)],
        "zerocopy": bool(end.lib.iperf_has_zerocopy()),
    }


def call(end: Any, name: str, value: int | float | str) -> None:
    """Call ``void name(struct iperf_test *, value)`` of the library; the C type follows from the Python type."""
    function = getattr(end.lib, name)
    function.restype = None
    kind = {int: ctypes.c_int, float: ctypes.c_double, str: ctypes.c_char_p}[type(value)]
    function.argtypes = (ctypes.c_void_p, kind)
    function(end._test, value.encode() if isinstance(value, str) else value)


def _new_end(role: str) -> Any:
    import iperf3

    made = iperf3.Client if role == "c" else iperf3.Server
    # Named in full: the package's own search asks the compiler. Not verbose: that would print text before the document.
    return made(verbose=False, lib_name=LIBRARY)


def _version(end: Any) -> str:
    if not hasattr(end.lib, "iperf_get_iperf_version"):
        return str(end.iperf_version).removeprefix("iperf ")
    end.lib.iperf_get_iperf_version.restype = ctypes.c_char_p
    return str(end.lib.iperf_get_iperf_version().decode())


def _run(end: Any, run: Any) -> NoReturn:
    """Run in a second thread, so that this one still answers signals while the library waits on its sockets."""
    errors: list[str] = []
    ended = threading.Event()

    def body() -> None:
        if run(end._test) < 0:
            errors.append(end._error_to_string(end._errno))  # in this thread, whose errno is part of the sentence
        ended.set()

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=body, daemon=True).start()
        ended.wait()
    except KeyboardInterrupt:
        errors.append("interrupted")
        if hasattr(end.lib, "iperf_got_sigend"):
            end.lib.iperf_got_sigend.argtypes = (ctypes.c_void_p,)
            end.lib.iperf_got_sigend(end._test)  # prints, tells the peer, and exits
    if errors:
        print(f"iperf3: error - {errors[0]}", file=sys.stderr, flush=True)
    ctypes.CDLL(None).fflush(None)
    os._exit(1 if errors else 0)


if __name__ == "__main__":
    main()
