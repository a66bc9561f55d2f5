"""Signatures in PDF sheets (PAdES baseline B-B or B-T, ETSI EN 319 142): making one, and saying what one proves.

A signature is added behind the bytes of the file, which stay as they were: signing again adds a second one.
"""

from __future__ import annotations

import importlib.util
import io
import os
import secrets
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec

from pytest_netperf.errors import ConfigError, RecordError

__all__ = ["Signature", "check_signatures", "sign_pdf"]


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one signature of a PDF."""

    signer: str
    """Name in the certificate."""
    certificate_sha256: str
    """Digest of the certificate, in hexadecimal."""
    signed_at: str | None
    """When, as the signer's clock said; UTC, ISO 8601."""
    intact: bool
    """The signed bytes are those that were signed, and the key is that of the certificate."""
    whole: bool
    """It covers all that the file shows; nothing was changed after it but further signatures."""
    trusted: bool | None
    """The certificate leads to a trusted one; None when no trusted certificates were given."""
    stamped_at: str | None = None
    """When, as a time stamp authority said; UTC, ISO 8601. None without a time stamp."""
    stamped_by: str | None = None
    """Name in the certificate of that authority."""
    stamp_intact: bool = True
    """The time stamp is of this signature, and unchanged; True without one."""
    stamp_trusted: bool | None = None
    """The authority's certificate leads to a trusted one; None when none were given, or without a time stamp."""

    @property
    def text(self) -> str:
        """One sentence for people."""
        when = f" at {self.signed_at} by the signer's clock" if self.signed_at else ""
        who = f"signed by {self.signer}{when} (certificate SHA-256 {self.certificate_sha256})"
        if not self.intact:
            return f"the file was changed after it was {who}, or the signature is forged"
        if not self.whole:
            return f"{who}, but something was added to the file afterwards that the signature does not cover"
        if not self.stamp_intact:
            return f"{who}, but its time stamp is not of this signature, or was changed"
        trust = {
            None: "whose certificate it is was not checked: name the trusted ones with --trust",
            True: "the certificate leads to a trusted one; whether it was revoked is not looked at",
            False: "the certificate leads to none of the trusted ones",
        }
        return f"{who}; {trust[self.trusted]}{self._stamp_text}"

    @property
    def _stamp_text(self) -> str:
        if self.stamped_at is None:
            return ""
        trust = {None: "", True: ", which leads to a trusted certificate", False: ", which leads to no trusted one"}
        return f"; it was there at {self.stamped_at}, says {self.stamped_by}{trust[self.stamp_trusted]} (RFC 3161)"

    @property
    def good(self) -> bool:
        """Nothing speaks against it."""
        return self.intact and self.whole and self.stamp_intact and False not in (self.trusted, self.stamp_trusted)


def sign_pdf(
    path: Path,
    target: Path,
    key: Path,
    certificate: Path | None = None,
    *,
    passphrase: bytes | None = None,
    reason: str | None = None,
    timestamp: str | None = None,
) -> str:
    """Sign a PDF with a PKCS#12 file, or with a private key and its certificate in PEM or DER, into a new file.

    ``timestamp`` is the URL of a time stamp authority (RFC 3161), which then says when. Returns the signer's name. The
    first file stays as it is. Raises ConfigError for a key, certificate or passphrase
    that is wrong, RecordError for a file that is no PDF, and for one that is there already or cannot be written.
    """
    _need_pyhanko()
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.pdf_utils.misc import PdfError
    from pyhanko.sign import fields, signers

    from pytest_netperf.report.timestamp import time_stamper

    signer = _signer(key, certificate, passphrase)
    stamper = time_stamper(timestamp) if timestamp is not None else None
    data = _read(path)
    try:
        writer = IncrementalPdfFileWriter(io.BytesIO(data))
        taken = sum(1 for _ in fields.enumerate_sig_fields(writer))
        meta = signers.PdfSignatureMetadata(
            field_name=f"Signature{taken + 1}",
            md_algorithm="sha256",
            subfilter=fields.SigSeedSubFilter.PADES,
            reason=reason,
        )
        signed = signers.sign_pdf(writer, meta, signer=signer, timestamper=stamper, output=io.BytesIO())
    except ConfigError:
        raise
    except PdfError as error:
        raise RecordError(f"{path}: cannot be signed: {error}") from None
    except Exception as error:
        if stamper is None:
            raise
        # What an authority sends makes the library raise anything, an AttributeError for a time stamp of another query.
        raise RecordError(f"--timestamp {timestamp}: the authority gave no time stamp of this: {error}") from None
    _write_new(target, signed.getvalue())
    return _name(signer.signing_cert)


def check_signatures(data: bytes, trusted: Iterable[Path] = ()) -> list[Signature]:
    """What each signature of a PDF proves, in their order; [] for an unsigned one.

    Nothing is fetched: revocation is not checked. Raises ConfigError for a trusted certificate that cannot be read or
    when pyhanko is missing, RecordError when the bytes are no PDF.
    """
    _need_pyhanko()
    import logging

    from pyhanko.keys import load_certs_from_pemder
    from pyhanko.pdf_utils.misc import PdfError
    from pyhanko.pdf_utils.reader import PdfFileReader

    logging.getLogger("pyhanko").addHandler(logging.NullHandler())  # what it would print, the answer says

    try:
        roots = list(load_certs_from_pemder([str(path) for path in trusted]))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read a trusted certificate: {error}") from None
    try:
        found = PdfFileReader(io.BytesIO(data), strict=False).embedded_regular_signatures
    except (PdfError, ValueError, KeyError, IndexError) as error:
        raise RecordError(f"cannot read this PDF: {error}") from None
    return [_checked(each, roots) for each in found]


def _checked(embedded: Any, roots: list[Any]) -> Signature:
    from pyhanko.sign.validation import validate_pdf_signature
    from pyhanko_certvalidator import ValidationContext

    certificate = embedded.signer_cert
    when = embedded.self_reported_timestamp
    known: dict[str, Any] = {
        "signer": _name(certificate) if certificate is not None else "nobody (no certificate is in it)",
        "certificate_sha256": certificate.sha256.hex() if certificate is not None else "-",
        "signed_at": when.isoformat(timespec="seconds") if when is not None else None,
    }
    try:
        context = ValidationContext(trust_roots=roots, allow_fetching=False)
        status = validate_pdf_signature(embedded, signer_validation_context=context, ts_validation_context=context)
    except Exception:  # noqa: BLE001 - a mangled file makes the library raise anything, and all of it means: not proven
        return Signature(**known, intact=False, whole=False, trusted=None)
    return Signature(
        **known,
        intact=bool(status.intact and status.valid),
        whole=bool(status.bottom_line or _unchanged(status)),
        trusted=bool(status.trusted) if roots else None,
        **_stamp(status.timestamp_validity, trusted=bool(roots)),
    )


def _stamp(status: Any, *, trusted: bool) -> dict[str, Any]:
    if status is None:
        return {}
    return {
        "stamped_at": status.timestamp.astimezone(UTC).isoformat(timespec="seconds"),
        "stamped_by": _name(status.signing_cert),
        "stamp_intact": bool(status.intact and status.valid),
        "stamp_trusted": bool(status.trusted) if trusted else None,
    }


def _unchanged(status: Any) -> bool:
    from pyhanko.sign.diff_analysis import ModificationLevel
    from pyhanko.sign.validation.status import SignatureCoverageLevel

    if status.coverage is None:
        return False
    if status.coverage >= SignatureCoverageLevel.ENTIRE_FILE:
        return True
    level = status.modification_level
    return (
        status.coverage >= SignatureCoverageLevel.ENTIRE_REVISION
        and level is not None
        and level <= ModificationLevel.FORM_FILLING
    )


def _signer(key: Path, certificate: Path | None, passphrase: bytes | None) -> Any:
    from pyhanko.sign.signers import SimpleSigner

    _read(key, "key")
    if certificate is None:
        what = f"{key} as PKCS#12 file with key and certificate"
        signer = SimpleSigner.load_pkcs12(str(key), passphrase=passphrase)
    else:
        _read(certificate, "certificate")
        what = f"{key} as private key (PEM or DER) with certificate {certificate}"
        signer = SimpleSigner.load(str(key), str(certificate), key_passphrase=passphrase)
    if not signer:
        raise ConfigError(
            f"cannot use {what}: it is something else, or the passphrase is wrong or missing (--passphrase-file). "
            "Give a PKCS#12 file as --key alone, or a PEM key as --key with its certificate as --cert"
        )
    if certificate is not None and not _belong_together(signer):
        raise ConfigError(f"the key {key} is not that of the certificate {certificate}")
    return signer


def _belong_together(signer: Any) -> bool:
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509 import load_der_x509_certificate

    private = serialization.load_der_private_key(signer.signing_key.dump(), password=None)
    public = load_der_x509_certificate(signer.signing_cert.dump()).public_key()
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(*form) == public.public_bytes(*form)


def _name(certificate: Any) -> str:
    names = certificate.subject.native
    return str(names.get("common_name") or names.get("organization_name") or certificate.subject.human_friendly)


def _need_pyhanko() -> None:
    if importlib.util.find_spec("pyhanko") is None:
        raise ConfigError("signatures need pyhanko, which is not installed here: pip install 'pytest-netperf[sign]'")


def _read(path: Path, what: str = "file") -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read this {what}: {error.strerror or error}") from None


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, whole or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike a rename, it refuses a name that is taken
    except FileExistsError:
        raise RecordError(
            f"{path} is there already, and nothing is overwritten; name another file by --output"
        ) from None
    except OSError as error:
        raise RecordError(f"{path}: cannot write the signed file: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
