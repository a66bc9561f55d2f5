"""Another machine that this one logs in to over ssh: a device that is told what to do, or the host at a far end."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SshTarget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """Which machine, and how to log in there."""

    host: str
    """Name or address; a name may be one of ~/.ssh/config."""
    user: str | None = None
    """None: as ~/.ssh/config says, or the user of this process."""
    port: int | None = None
    """None: as ~/.ssh/config says, or 22."""
    key: str | None = None
    """File with our private key, without a passphrase; None: the agent, and the usual files of ~/.ssh."""
    known_hosts: str | None = None
    """File with the host's public key; None: ~/.ssh/known_hosts."""
    check_host_key: bool = True
    """False: whatever answers at this address is taken for the host; for a closed network only."""
    connect_seconds: float = 10.0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port in (None, 22) else f":{self.port}"
        return f"ssh {'' if self.user is None else f'{self.user}@'}{host}{port}"
