"""What is wrong with an ssh connection, in one sentence that names the machine and the way out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pytest_netperf.bench.ssh_target import SshTarget
from pytest_netperf.errors import SshError

__all__ = ["explain"]


def explain(error: Exception, target: SshTarget, command: str | None = None) -> SshError:
    """The error of asyncssh or of the operating system, as one of ours."""
    import asyncssh

    if isinstance(error, SshError):
        return error
    match error:
        case asyncssh.HostKeyNotVerifiable():
            return SshError(_host_key(target), "host key")
        case asyncssh.PermissionDenied():
            return SshError(_refused(target), "refused")
        case asyncssh.KeyImportError() | asyncssh.KeyEncryptionError():
            way_out = "name a private key without a passphrase, or add it to the agent (ssh-add) and name none"
            return SshError(f"{target}: the key {target.key or 'of ~/.ssh'} cannot be used: {error}; {way_out}", "key")
        case asyncssh.ConfigParseError():
            return SshError(f"{target}: ~/.ssh/config cannot be understood: {error}", "key")
        case asyncssh.KeyExchangeFailed():
            return SshError(f"{target}: no common method of encryption: {error}", "host key")
        case TimeoutError() if command is None:
            return SshError(_no_answer(target), "timeout")
        case socket.gaierror():
            return SshError(
                f"{target}: there is no host of this name ({error.strerror}); look at its spelling", "unreachable"
            )
        case FileNotFoundError() | PermissionError() | IsADirectoryError() if error.filename is not None:
            said = f"{error.filename} cannot be read: {os.strerror(error.errno or 0)}; it should hold"
            what = "our private key" if target.key is not None and error.filename == target.key else "keys of hosts"
            return SshError(f"{target}: {said} {what}", "key")
        case asyncssh.ChannelOpenError() if error.code == asyncssh.OPEN_CONNECT_FAILED:
            return SshError(f"{target}: the connection was lost: it does not answer any more", "lost")
        case asyncssh.ChannelOpenError():
            return SshError(f"{target}: the server does not let us run commands: {error}", "refused")
        case asyncssh.ConnectionLost() | BrokenPipeError() | ConnectionResetError():
            when = "before anybody was logged in" if command is None else f"while {command} ran"
            return SshError(f"{target}: the connection was lost {when}: {error}", "lost")
        case OSError():
            said = os.strerror(error.errno) if error.errno else str(error)
            way_out = "is it switched on, does sshd run there, and is a firewall in between?"
            return SshError(f"{target}: cannot be reached: {said}; {way_out}", "unreachable")
    return SshError(f"{target}: {type(error).__name__}: {error}", "lost")


def _no_answer(target: SshTarget) -> str:
    return (
        f"{target}: no answer within {target.connect_seconds:g} s; is it switched on, is the address right, and does a "
        "firewall drop what is sent there?"
    )


def _refused(target: SshTarget) -> str:
    key = f"the key {target.key}" if target.key is not None else "no key of the agent or of ~/.ssh"
    return (
        f"{target}: the login was refused: {key} is {'not ' if target.key else ''}accepted there; append the public "
        "key to ~/.ssh/authorized_keys of that user (ssh-copy-id), or name the right one"
    )


def _host_key(target: SshTarget) -> str:
    import asyncssh

    file = Path(target.known_hosts or "~/.ssh/known_hosts").expanduser()
    port = target.port or 22
    scan = f"ssh-keyscan {'' if port == 22 else f'-p {port} '}{target.host} >> {file}"
    name = target.host if port == 22 else f"'[{target.host}]:{port}'"
    try:
        known = any(asyncssh.match_known_hosts(str(file), target.host, target.host, port)[:2])
    except (OSError, ValueError):
        known = False
    if known:
        return (
            f"{target}: the host shows another key than the one in {file}: it was installed anew, or something else "
            f"answers at its address. If you know why, remove the old line (ssh-keygen -f {file} -R "
            f"{name}) and add the new one: {scan}"
        )
    return (
        f"{target}: the key of the host is not known: {file} has no line for it. Compare its fingerprint with the one "
        f"that the host itself shows, and add it: {scan}"
    )
