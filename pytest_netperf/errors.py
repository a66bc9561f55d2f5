"""The exceptions of pytest-netperf.

    NetperfError
    ├── ConfigError          the user wrote something we cannot accept; nothing was run
    │   ├── BenchError       a bench file
    │   ├── MarkError        a netperf_link or netperf_limit mark, or an argument of a traffic call
    │   ├── LimitError       a limit, in a mark or a limits file
    │   └── QuantityError    a number, unit or quantity name
    ├── DeviceError          the device is not what the bench says of it, before any measurement
    ├── RecordError          a journal or sheet could not be written, or is not one
    └── StationError         the bench (this machine, its tools, a peer) failed; the device is not to blame
        ├── LinkError        a link could not be brought up or proved
        │   └── ServiceMissingError   what a state of the device needs is not installed: the test is skipped
        ├── KeeperError      the process that owns the links died or could not start
        ├── SshError         another machine cannot be reached over ssh, or does not do what it is told
        └── TrafficError     the traffic tool failed: missing, refused, frozen, killed

A ConfigError is reported where it was written, before anything runs. A StationError makes the row ERROR, never FAIL;
a DeviceError makes it FAIL.
"""

from __future__ import annotations

__all__ = [
    "BenchError",
    "ConfigError",
    "DeviceError",
    "KeeperError",
    "LateRequestError",
    "LimitError",
    "LinkError",
    "MarkError",
    "NetperfError",
    "QuantityError",
    "RecordError",
    "ServiceMissingError",
    "SshError",
    "StationError",
    "TrafficError",
]


class NetperfError(Exception):
    """Everything that this package raises on purpose."""


class ConfigError(NetperfError):
    """The user's input is not acceptable. The message says what was given, what is expected, where, and the way out."""


class BenchError(ConfigError):
    """A bench file that is unreadable, broken or contradictory. The message lists every mistake, one a line."""


class MarkError(ConfigError):
    """A wrong argument of a mark or of a traffic call."""


class LateRequestError(MarkError):
    """A fixture of ours that collection did not see: nobody planned a row for the test that asks for it."""


class LimitError(ConfigError):
    """A limit that is malformed, contradictory or can never hold."""


class QuantityError(ConfigError):
    """A number without a unit, an unknown unit, or an unknown quantity."""


class DeviceError(NetperfError):
    """The device is not what the bench file says that it is sold for: the row becomes FAIL with this message."""


class RecordError(NetperfError):
    """A journal or a sheet could not be written or read. The message names the file and the way out."""


class StationError(NetperfError):
    """The bench failed, not the device: the row becomes ERROR with this message as its reason."""


class LinkError(StationError):
    """A link could not be brought up, or did not prove itself."""


class ServiceMissingError(LinkError):
    """What a state of the device needs is not installed there: the test is skipped, with this message as the reason."""


class KeeperError(StationError):
    """The keeper process could not start or is gone."""


class SshError(StationError):
    """Another machine cannot be reached over ssh, refuses us, or does not do what it is told; ``kind`` says which."""

    def __init__(self, message: str, kind: str = "lost") -> None:
        super().__init__(message)
        self.kind = kind


class TrafficError(StationError):
    """The traffic tool is missing, refused to run, froze, or was killed."""
