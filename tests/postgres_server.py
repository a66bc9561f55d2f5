"""A PostgreSQL server for the tests: in a temporary folder, on a UNIX socket only, as a user who is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pytest_netperf.links.kernel import die_with_parent

__all__ = ["PostgresServer", "binaries", "running_server"]

_PORT = 5499  # of the socket's name; nothing listens on TCP
_USER = "netperf"


def binaries() -> Path | None:
    """The folder with initdb and postgres: on the PATH, or where Debian puts it."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class PostgresServer:
    """A server that runs."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._databases = 0

    def new_database(self) -> str:
        """Its name; empty."""
        self._databases += 1
        name = f"store_{self._databases}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return name

    def url(self, database: str, user: str = _USER) -> str:
        """As --netperf-store takes it."""
        return f"postgresql+psycopg://{user}@/{database}?host={self._socket}&port={_PORT}"

    def execute(self, database: str, sql: str) -> list[tuple[object, ...]]:
        """Run one statement as the owner."""
        where = {"host": str(self._socket), "port": _PORT, "user": _USER, "dbname": database}
        with psycopg.connect(**where, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def running_server(folder: Path) -> Iterator[PostgresServer]:
    """A server of the binaries in ``folder``, which ends with the block, or with this process."""
    root = os.geteuid() == 0
    owner = next(
        (name for name in ("postgres", "nobody") if name in {user.pw_name for user in pwd.getpwall()}), "nobody"
    )
    who = {"user": owner, "group": pwd.getpwnam(owner).pw_gid, "extra_groups": []} if root else {}
    home = Path(tempfile.mkdtemp(prefix="netperf-pg-", dir="/tmp"))  # a socket's path has at most 107 characters
    if root:
        os.chown(home, pwd.getpwnam(owner).pw_uid, pwd.getpwnam(owner).pw_gid)
    server = None
    try:
        data = home / "data"
        made = [folder / "initdb", "-D", data, "-A", "trust", "-U", _USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(made, cwd=home, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"}, **who)
        command = [folder / "postgres", "-D", data, "-k", home, "-h", "", "-p", str(_PORT), "-c", "fsync=off"]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                command, cwd=home, stdout=log, stderr=log, env={"PATH": "/usr/bin:/bin"},
                preexec_fn=lambda: die_with_parent(signal.SIGINT), **who,
            )  # fmt: skip
        answering = PostgresServer(home)
        for _ in range(200):
            try:
                answering.execute("postgres", "SELECT 1")
                break
            except psycopg.OperationalError:
                assert server.poll() is None, (home / "log").read_text()
                time.sleep(0.05)
        yield answering
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # ends it, whoever is connected
            server.wait(30)
        shutil.rmtree(home, ignore_errors=True)
