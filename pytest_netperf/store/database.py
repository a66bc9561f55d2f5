"""A database that holds a store: which URLs there are, how it is opened, and its migrations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.record.state_folder import locked
from pytest_netperf.store.sqlite_file import lock_of

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

__all__ = ["Database", "database_errors", "hide_password", "parse_url", "require_store"]

_EXAMPLES = "sqlite:///results.db or postgresql+psycopg://user@host/database"
_MIGRATION_LOCK = 0x6E657470657266  # "netperf"
_CONNECT_S = 5
_STATEMENT_MS = 20_000
_BUSY_S = 10.0


def require_store() -> None:
    """Raise ConfigError, with the way out, when the packages of the store are not installed."""
    try:
        import alembic  # noqa: F401 - only whether it is there
        import sqlalchemy  # noqa: F401 - the same
    except ImportError as error:
        raise ConfigError(
            f"a store needs SQLAlchemy and Alembic ({error}): pip install 'pytest-netperf[store]'"
        ) from None


def parse_url(text: str, folder: Path | None = None) -> URL:
    """The URL of a store; a relative path in it starts from ``folder``. ConfigError when it cannot be one."""
    require_store()
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"{hide_password(text)!r} is not the URL of a database; write {_EXAMPLES}") from None
    shown = url.render_as_string(hide_password=True)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername == "postgresql+psycopg":
        try:
            import psycopg  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise ConfigError(f"{shown} needs psycopg ({error}): pip install 'pytest-netperf[store]'") from None
        if not url.database:
            raise ConfigError(f"{shown} names no database; write {_EXAMPLES}")
        return url
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ConfigError(f"{shown}: a store is SQLite or PostgreSQL, not {url.drivername}; write {_EXAMPLES}")
    if not url.database or url.database == ":memory:":
        raise ConfigError(f"{shown} is gone with its process; name a file: {_EXAMPLES}")
    return url.set(database=str((folder or Path.cwd()) / Path(url.database).expanduser()))


def hide_password(text: str) -> str:
    """A command line or URL without the passwords of URLs in it."""
    import re

    return re.sub(r"(://[^/\s:@]*:)[^@\s]*(?=@)", r"\1***", text)


class Database:
    """An engine on a store, whose tables are of this version."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.engine = engine
        self.shown = url.render_as_string(hide_password=True)

    @classmethod
    def open(cls, url: URL, *, create: bool) -> Database:
        """Connect, and bring the tables up to date; without ``create`` a store must be there already.

        Raises RecordError when it cannot be reached, is of a newer version, or is not there.
        """
        shown = url.render_as_string(hide_password=True)
        if url.drivername.startswith("sqlite"):
            path = Path(str(url.database))
            if not create and not path.is_file():
                raise RecordError(
                    f"{shown}: there is no such store; 'pytest-netperf store sync DIR --store URL' makes one"
                )
            if not path.parent.is_dir():
                raise RecordError(f"{shown}: there is no folder {path.parent}; make it, or name another file")
        engine = _engine(url)
        with database_errors(shown):
            _migrate(engine, url, create)
        return cls(url, engine)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction; RecordError when the database fails."""
        with database_errors(self.shown), self.engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()


@contextlib.contextmanager
def database_errors(shown: str) -> Iterator[None]:
    """What the database says, in one line, as a RecordError."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except DBAPIError as error:
        words = " ".join(str(error.orig).split()) or type(error.orig).__name__
        raise RecordError(f"{shown}: {words}") from None
    except SQLAlchemyError as error:
        raise RecordError(f"{shown}: {' '.join(str(error).split())}") from None


def _engine(url: URL) -> Engine:
    from sqlalchemy import create_engine, event

    if url.drivername.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": _BUSY_S})

        @event.listens_for(engine, "connect")
        def on_connect(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA foreign_keys=ON")

        return engine
    settings: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        "keepalives_idle": 5,
        "tcp_user_timeout": 10_000,
        "options": f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={_STATEMENT_MS}",
        "application_name": "pytest-netperf",
    }
    return create_engine(url, connect_args=settings, pool_size=1, max_overflow=1, pool_pre_ping=True)


def _migrate(engine: Engine, url: URL, create: bool) -> None:
    """Bring the tables to the newest version; only one process at a time does, and only where something is to do."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from sqlalchemy import inspect, text

    config = Config()
    config.set_main_option("script_location", str(files("pytest_netperf.store") / "migrations").replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    head, known = script.get_current_head(), {step.revision for step in script.walk_revisions()}

    def version() -> str | None:
        with engine.connect() as connection:
            if not inspect(connection).has_table("netperf_version"):
                return None
            return connection.execute(text("SELECT version_num FROM netperf_version")).scalar()

    def check(found: str | None) -> bool:
        shown = url.render_as_string(hide_password=True)
        if found is not None and found not in known:
            raise RecordError(f"{shown}: this store is of a newer pytest-netperf (version {found}); upgrade this one")
        if found is None and not create:
            raise RecordError(f"{shown}: there is no store in this database; 'pytest-netperf store sync' makes one")
        return found != head

    if not check(version()):
        return
    with contextlib.ExitStack() as stack:
        if url.drivername.startswith("sqlite"):
            stack.enter_context(locked(lock_of(Path(str(url.database)))))
        connection = stack.enter_context(engine.connect())
        if not url.drivername.startswith("sqlite"):
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
            connection.commit()  # a session's lock outlives the transaction
        try:
            if check(version()):
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                connection.commit()
        finally:
            if not url.drivername.startswith("sqlite"):
                connection.rollback()
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK})
                connection.commit()
