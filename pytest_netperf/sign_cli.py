"""``pytest-netperf sign``: signatures in PDF sheets."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_netperf.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("sheets", nargs="+", type=Path, metavar="SHEET.pdf", help="PDF sheets")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="private key (PEM), or PKCS#12 file")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="certificate (PEM); not with PKCS#12")
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="file whose first line opens the key")
    parser.add_argument("--reason", metavar="TEXT", help="reason that the signature states, such as 'approved'")
    parser.add_argument(
        "--timestamp",
        metavar="URL",
        help="time stamp authority (RFC 3161) that says when; it is asked over the network",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="signed file, of a single sheet; default: SHEET.signed.pdf"
    )


def run(asked: argparse.Namespace) -> int:
    """Sign each sheet into a new file. Returns the exit code."""
    from pytest_netperf.report.signature import sign_pdf

    if asked.output is not None and len(asked.sheets) > 1:
        raise ConfigError(f"--output {asked.output}: names one file, and {len(asked.sheets)} sheets were given")
    passphrase = _first_line(asked.passphrase_file) if asked.passphrase_file is not None else None
    for sheet in asked.sheets:
        target = asked.output or sheet.with_name(f"{sheet.name.removesuffix('.pdf')}.signed.pdf")
        name = sign_pdf(
            sheet, target, asked.key, asked.cert, passphrase=passphrase, reason=asked.reason, timestamp=asked.timestamp
        )
        print(f"{target}: signed by {name}")
    return 0


def _first_line(path: Path) -> bytes:
    try:
        return path.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")
    except OSError as error:
        raise ConfigError(f"--passphrase-file {path}: cannot read it: {error.strerror or error}") from None
