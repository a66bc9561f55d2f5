"""Time stamps of an authority (RFC 3161) in signatures: asked for over HTTP, as TSAs are."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

from pytest_netperf.errors import ConfigError

__all__ = ["time_stamper"]

_PATIENCE_S = 20.0
_QUERY, _REPLY = "application/timestamp-query", "application/timestamp-reply"
_LARGEST = 1_000_000


def time_stamper(url: str) -> Any:
    """What pyhanko asks for time stamps, from the authority at this URL. ConfigError for a URL that is none."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--timestamp {url}: write the URL of a time stamp authority (RFC 3161), as in http://...")
    from asn1crypto import tsp  # type: ignore[import-untyped]
    from pyhanko.sign.timestamps import TimeStamper

    class Authority(TimeStamper):  # type: ignore[misc]
        async def async_request_tsa_response(self, req: tsp.TimeStampReq) -> tsp.TimeStampResp:
            return tsp.TimeStampResp.load(_asked(url, req.dump()))

    return Authority()


def _asked(url: str, query: bytes) -> bytes:
    request = urllib.request.Request(url, query, {"Content-Type": _QUERY, "Accept": _REPLY})
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as reply:
            kind, data = reply.headers.get_content_type(), reply.read(_LARGEST)
    except (urllib.error.URLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise ConfigError(f"--timestamp {url}: the time stamp authority does not answer: {why}") from None
    if kind != _REPLY:
        raise ConfigError(f"--timestamp {url}: what answers there is no time stamp authority: it sends {kind}")
    return bytes(data)
