"""An SNMP agent that can be asked: where it is, how it lets us in, and the questions. Needs the extra ``snmp``."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict, get_args

from pytest_netperf.errors import ConfigError

__all__ = ["Access", "SnmpAgent"]

Version = Literal["1", "2c", "3"]
Auth = Literal["MD5", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512"]
Privacy = Literal["DES", "AES", "AES-192", "AES-256"]
_TIMEOUT_S: Final = 2.0
_RETRIES: Final = 1
_SHORTEST_KEY: Final = 8  # RFC 3414, section 11.2
_AUTH: Final[dict[str, str]] = {
    "MD5": "usmHMACMD5AuthProtocol",
    "SHA": "usmHMACSHAAuthProtocol",
    "SHA-224": "usmHMAC128SHA224AuthProtocol",
    "SHA-256": "usmHMAC192SHA256AuthProtocol",
    "SHA-384": "usmHMAC256SHA384AuthProtocol",
    "SHA-512": "usmHMAC384SHA512AuthProtocol",
}
_PRIVACY: Final[dict[str, str]] = {
    "DES": "usmDESPrivProtocol",
    "AES": "usmAesCfb128Protocol",
    "AES-192": "usmAesCfb192Protocol",
    "AES-256": "usmAesCfb256Protocol",
}


class Access(TypedDict, total=False):
    """How a probe is let in; the fields of `SnmpAgent`, each with its default there."""

    port: int
    version: Version
    community: str
    user: str
    auth: Auth
    auth_key: str
    privacy: Privacy
    privacy_key: str


@dataclass(frozen=True, kw_only=True)
class SnmpAgent:
    """One agent. Raises ConfigError for what cannot be asked, and where pysnmp is missing."""

    host: str
    port: int = 161
    version: Version = "2c"
    """"3" where a ``user`` is given and no version is."""
    community: str = "public"
    """Of versions 1 and 2c."""
    user: str = ""
    """Of version 3; without ``auth_key`` everybody may use the name (noAuthNoPriv)."""
    auth: Auth = "SHA"
    auth_key: str = field(default="", repr=False)
    """The pass phrase with which messages are signed (authNoPriv)."""
    privacy: Privacy = "AES"
    privacy_key: str = field(default="", repr=False)
    """The pass phrase with which they are encrypted as well (authPriv)."""

    def __post_init__(self) -> None:
        if importlib.util.find_spec("pysnmp") is None:
            raise ConfigError("SNMP needs pysnmp, which is not installed: pip install 'pytest-netperf[snmp]'")
        if not isinstance(self.host, str) or not self.host.strip():
            raise ConfigError("SNMP: the host is empty")
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 1 <= self.port <= 65535:
            raise ConfigError(f"SNMP: port {self.port!r} is not a port from 1 to 65535")
        for name, allowed in (("version", Version), ("auth", Auth), ("privacy", Privacy)):
            if getattr(self, name) not in get_args(allowed):
                raise ConfigError(
                    f"SNMP: {name} {getattr(self, name)!r} is not known here; write one of "
                    f"{', '.join(map(repr, get_args(allowed)))}"
                )
        if self.user and self.version == "2c":
            object.__setattr__(self, "version", "3")
        self._check_user()

    def _check_user(self) -> None:
        if self.version != "3":
            if self.user or self.auth_key or self.privacy_key:
                raise ConfigError(f"SNMP: a user and its keys are of version 3, not of {self.version}; leave one out")
            return
        if not self.user:
            raise ConfigError("SNMP: version 3 needs a user; write user='...'")
        if self.privacy_key and not self.auth_key:
            raise ConfigError("SNMP: privacy_key needs auth_key, too: there is no encryption without authentication")
        for name in ("auth_key", "privacy_key"):
            key = getattr(self, name)
            if key and len(key) < _SHORTEST_KEY:
                raise ConfigError(f"SNMP: {name} has {len(key)} characters; SNMP wants {_SHORTEST_KEY} or more")
        if self.privacy_key and importlib.util.find_spec("cryptography") is None:
            raise ConfigError(
                "SNMP: encryption needs cryptography, which is not installed: pip install 'pytest-netperf[snmp]'"
            )

    def numbers(self, oids: Sequence[str], *, missing_is_fine: bool = False) -> dict[str, float]:
        """Object -> its number. Raises RuntimeError for no answer, and for what is not there or is no number."""
        import asyncio

        found = asyncio.run(self._ask(oids))
        numbers: dict[str, float] = {}
        for oid in oids:
            value = found.get(oid.strip("."))
            try:
                numbers[oid] = float(str(value))
            except ValueError:
                if not missing_is_fine:
                    what = "is not there" if value is None else f"is {str(value)!r}, which is no number"
                    raise RuntimeError(f"object {oid} of {self.host} {what}") from None
        return numbers

    def numbers_below(self, oid: str) -> list[float]:
        """The numbers of all objects below this one. Raises RuntimeError for no answer."""
        import asyncio

        return asyncio.run(self._walk(oid))

    async def _ask(self, oids: Sequence[str]) -> dict[str, Any]:
        from pysnmp.hlapi.v3arch.asyncio import ContextData, ObjectIdentity, ObjectType, SnmpEngine, get_cmd

        engine = SnmpEngine()
        wanted = [ObjectType(ObjectIdentity(oid)) for oid in oids]
        try:
            error, status, _, bindings = await get_cmd(
                engine, self._credentials(), await self._target(), ContextData(), *wanted, lookupMib=False
            )
        finally:
            engine.close_dispatcher()
        if error or (status and self.version != "1"):
            raise self._silent(error or status.prettyPrint())
        return {str(name): _value(value) for name, value in bindings}

    async def _walk(self, oid: str) -> list[float]:
        from pysnmp.hlapi.v3arch.asyncio import ContextData, ObjectIdentity, ObjectType, SnmpEngine, walk_cmd

        engine = SnmpEngine()
        found: list[float] = []
        try:
            async for error, status, _, bindings in walk_cmd(
                engine,
                self._credentials(),
                await self._target(),
                ContextData(),
                ObjectType(ObjectIdentity(oid)),
                lookupMib=False,
                lexicographicMode=False,
            ):
                if error:
                    raise self._silent(error)
                if status:
                    break
                found += [float(value) for value in (_value(value) for _, value in bindings) if value is not None]
        finally:
            engine.close_dispatcher()
        return found

    def _silent(self, why: object) -> RuntimeError:
        return RuntimeError(f"{self.host} port {self.port} gives no answer by SNMP: {why}")

    def _credentials(self) -> Any:
        from pysnmp.hlapi.v3arch import asyncio as known

        if self.version != "3":
            return known.CommunityData(self.community, mpModel=0 if self.version == "1" else 1)
        signed = {"authKey": self.auth_key, "authProtocol": getattr(known, _AUTH[self.auth])}
        encrypted = {"privKey": self.privacy_key, "privProtocol": getattr(known, _PRIVACY[self.privacy])}
        return known.UsmUserData(
            self.user, **(signed if self.auth_key else {}), **(encrypted if self.privacy_key else {})
        )

    async def _target(self) -> Any:
        from pysnmp.hlapi.v3arch.asyncio import UdpTransportTarget

        return await UdpTransportTarget.create((self.host, self.port), timeout=_TIMEOUT_S, retries=_RETRIES)


def _value(value: Any) -> Any:
    """None for an object that is not there (noSuchObject, noSuchInstance, endOfMibView)."""
    return None if type(value).__name__ in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null") else value
