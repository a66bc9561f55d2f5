"""The QR code of a sheet: its unique identification and the SHA-256 of sheet.json, to find the record from paper."""

from __future__ import annotations

from html import escape

from pytest_netperf.record.wording import printable

__all__ = ["qr_svg", "qr_text"]


def qr_text(report_id: str, json_sha256: str) -> str:
    """What the code says: two lines of text."""
    return f"{report_id}\nsha256:{json_sha256}"


def qr_svg(report_id: str, json_sha256: str) -> str:
    """The code as inline SVG, dark on white."""
    import segno

    text = qr_text(report_id, json_sha256)
    code = segno.make(text.encode("utf-8", "replace").decode(), micro=False, error="m")
    drawn: str = code.svg_inline(scale=1, border=4, omitsize=True, light="#fff", svgclass="qr", lineclass=None)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="QR: {escape(printable(report_id))}" ', 1)
