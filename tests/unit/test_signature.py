"""Signatures in PDF sheets: made with keys of the two usual forms, and what they prove when somebody meddles."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.server
import shutil
import subprocess
import threading

import pytest
from asn1crypto import keys, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyhanko.sign.timestamps import DummyTimeStamper
from record_samples import RUN, make_row, plan_of

from pytest_netperf.cli import main
from pytest_netperf.errors import ConfigError, RecordError
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.form import SheetForm
from pytest_netperf.report.pdf import sheet_pdf
from pytest_netperf.report.sheet import write_sheet
from pytest_netperf.report.signature import check_signatures, sign_pdf


def certificate_of(name, key, issuer=None, issuer_key=None, *, stamps=False):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder()
    if stamps:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    return (
        builder
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, content_commitment=True, key_encipherment=False, data_encipherment=False,
                key_agreement=False, key_cert_sign=issuer is None, crl_sign=issuer is None, encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(issuer_key or key, hashes.SHA256())
    )  # fmt: skip


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder with a root certificate, a key and certificate below it, the same as PKCS#12, and a stranger's."""
    folder = tmp_path_factory.mktemp("office")
    root_key, key, other_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root = certificate_of("Example root", root_key)
    mine = certificate_of("Example authoriser", key, root, root_key)
    other = certificate_of("Stranger", other_key)
    stamp_key = rsa.generate_private_key(65537, 2048)
    authority = certificate_of("Example TSA", stamp_key, root, root_key, stamps=True)
    (folder / "tsa.key").write_bytes(stamp_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "tsa.der").write_bytes(authority.public_bytes(Encoding.DER))
    for name, certificate in (("root", root), ("cert", mine), ("other", other)):
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    plain = (Encoding.PEM, PrivateFormat.PKCS8)
    (folder / "key.pem").write_bytes(key.private_bytes(*plain, NoEncryption()))
    (folder / "locked.pem").write_bytes(key.private_bytes(*plain, BestAvailableEncryption(b"open")))
    (folder / "passphrase").write_text("open\n")
    (folder / "both.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", key, mine, [root], BestAvailableEncryption(b"open"))
    )
    row = make_row()
    (sheet,) = build_sheets(RUN, plan_of([row]), [row], complete=True)
    (folder / "sheet.pdf").write_bytes(sheet_pdf(sheet))
    sign_pdf(folder / "sheet.pdf", folder / "signed.pdf", folder / "key.pem", folder / "cert.pem", reason="approved")
    return folder


@pytest.fixture
def signed(office):
    return (office / "signed.pdf").read_bytes()


def test_an_unsigned_sheet_has_no_signature(office):
    assert check_signatures((office / "sheet.pdf").read_bytes()) == []


def test_a_signature_says_who_and_that_nothing_changed(office, signed):
    (found,) = check_signatures(signed, [office / "root.pem"])
    assert (found.signer, found.intact, found.whole, found.trusted, found.good) == (
        "Example authoriser", True, True, True, True,
    )  # fmt: skip
    assert found.text.startswith("signed by Example authoriser at 20")
    assert found.text.endswith("the certificate leads to a trusted one; whether it was revoked is not looked at")
    assert (found.stamped_at, found.stamped_by, found.stamp_trusted) == (None, None, None)
    assert signed.startswith((office / "sheet.pdf").read_bytes()), "the bytes of the sheet stay as they were"


def test_without_trusted_certificates_it_says_that_nobody_checked_whose_it_is(signed):
    (found,) = check_signatures(signed)
    assert (found.trusted, found.good) == (None, True)
    assert "whose certificate it is was not checked" in found.text


def test_a_strangers_certificate_is_not_good(office, signed):
    (found,) = check_signatures(signed, [office / "other.pem"])
    assert (found.intact, found.trusted, found.good) == (True, False, False)


def test_one_flipped_bit_of_what_was_signed_is_found(office, signed):
    length = (office / "sheet.pdf").stat().st_size
    for place in range(100, length, length // 25):
        meddled = bytearray(signed)
        meddled[place] ^= 1
        try:
            found = check_signatures(bytes(meddled), [office / "root.pem"])
        except RecordError:
            continue  # no PDF any more
        assert [each for each in found if each.good] == [], place


def test_what_was_added_behind_a_signature_is_found(office, signed):
    import io

    from pyhanko.pdf_utils import generic
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter

    writer = IncrementalPdfFileWriter(io.BytesIO(signed))
    page = writer.root["/Pages"]["/Kids"][0].get_object()
    page["/Contents"] = writer.add_object(generic.StreamObject(stream_data=b"BT (PASS) Tj ET"))
    writer.update_container(page)
    more = io.BytesIO()
    writer.write(more)
    (found,) = check_signatures(more.getvalue(), [office / "root.pem"])
    assert not found.good
    (cut,) = check_signatures(more.getvalue()[: len(signed)], [office / "root.pem"])
    assert cut.good


def test_it_is_still_pdf_a_to_its_own_words_and_has_the_record(office):
    import pikepdf

    with pikepdf.open(office / "signed.pdf") as document:
        with document.open_metadata() as metadata:
            assert metadata["pdfaid:part"] == "3"
        assert list(document.attachments) == ["sheet.json"]


@pytest.mark.skipif(shutil.which("pdfsig") is None, reason="no pdfsig; `./run test` installs it")
def test_another_program_finds_the_signature_valid(office):
    said = subprocess.run(["pdfsig", "-nocert", office / "signed.pdf"], capture_output=True, text=True).stdout
    assert "Signature is Valid." in said
    assert "Example authoriser" in said
    assert "Total document signed" in said


def test_the_command_signs_into_a_new_file_and_never_over_one(office, tmp_path, capsys):
    sheet = shutil.copy(office / "sheet.pdf", tmp_path / "sheet.pdf")
    before = sheet.read_bytes()
    command = ["sign", str(sheet), "--key", str(office / "both.p12"), "--passphrase-file", str(office / "passphrase")]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'sheet.signed.pdf'}: signed by Example authoriser\n"
    assert sheet.read_bytes() == before
    assert main(command) == 2
    assert "sheet.signed.pdf is there already, and nothing is overwritten" in capsys.readouterr().err
    again = ["sign", str(tmp_path / "sheet.signed.pdf"), "--key", str(office / "key.pem"), "--output", "second.pdf"]
    again += ["--cert", str(office / "cert.pem")]
    again[again.index("second.pdf")] = str(tmp_path / "second.pdf")
    assert main(again) == 0
    assert [each.good for each in check_signatures((tmp_path / "second.pdf").read_bytes())] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["second.pdf", "sheet.pdf", "sheet.signed.pdf"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--key", "none.pem", "--cert", "cert.pem"), "none.pem: cannot read this key: No such file"),
        (("--key", "key.pem", "--cert", "none.pem"), "none.pem: cannot read this certificate: No such file"),
        (("--key", "key.pem"), "it is something else, or the passphrase is wrong"),
        (("--key", "both.p12"), "the passphrase is wrong or missing (--passphrase-file)"),
        (("--key", "locked.pem", "--cert", "cert.pem"), "the passphrase is wrong or missing"),
        (("--key", "cert.pem", "--cert", "key.pem"), "it is something else"),
        (("--key", "key.pem", "--cert", "other.pem"), "is not that of the certificate"),
        (("--key", "key.pem", "--passphrase-file", "none"), "--passphrase-file none: cannot read it"),
    ],
)
def test_a_wrong_key_is_said(office, tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(office)
    target = tmp_path / "out.pdf"
    assert main(["sign", "sheet.pdf", "--output", str(target), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\n", b"{}", b"\x00" * 5000])
def test_what_is_no_pdf_is_neither_signed_nor_checked(office, tmp_path, content):
    (tmp_path / "sheet.pdf").write_bytes(content)
    with pytest.raises(RecordError, match="cannot be signed"):
        sign_pdf(tmp_path / "sheet.pdf", tmp_path / "out.pdf", office / "key.pem", office / "cert.pem")
    with pytest.raises(RecordError, match="cannot read this PDF"):
        check_signatures(content)


def test_a_trusted_certificate_that_is_none_is_said(office, signed):
    with pytest.raises(ConfigError, match="cannot read a trusted certificate"):
        check_signatures(signed, [office / "sheet.pdf"])


# Time stamps


def stamper_of(office):
    return DummyTimeStamper(
        asn1_x509.Certificate.load((office / "tsa.der").read_bytes()),
        keys.PrivateKeyInfo.load((office / "tsa.key").read_bytes()),
    )


@contextlib.contextmanager
def time_stamp_authority(office, *, wrong=None):
    """A real server on loopback, and its URL; ``wrong``: what it answers instead."""
    stamper = stamper_of(office)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.headers["Content-Type"] == "application/timestamp-query"
            query = tsp.TimeStampReq.load(self.rfile.read(int(self.headers["Content-Length"])))
            data = wrong[1] if wrong else asyncio.run(stamper.async_request_tsa_response(query)).dump()
            self.send_response(200)
            self.send_header("Content-Type", wrong[0] if wrong else "application/timestamp-reply")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tsr"
        server.shutdown()


def test_a_time_stamp_says_when_by_another_clock(office, tmp_path, capsys):
    target = tmp_path / "stamped.pdf"
    command = ["sign", str(office / "sheet.pdf"), "--key", str(office / "key.pem"), "--cert", str(office / "cert.pem")]
    with time_stamp_authority(office) as url:
        assert main([*command, "--output", str(target), "--timestamp", url]) == 0
    (found,) = check_signatures(target.read_bytes(), [office / "root.pem"])
    assert (found.good, found.stamped_by, found.stamp_intact, found.stamp_trusted) == (True, "Example TSA", True, True)
    stamped = datetime.datetime.fromisoformat(found.stamped_at)
    assert abs(datetime.datetime.now(datetime.UTC) - stamped) < datetime.timedelta(minutes=5)
    assert f"; it was there at {found.stamped_at}, says Example TSA, which leads to a trusted" in found.text
    (found,) = check_signatures(target.read_bytes(), [office / "other.pem"])
    assert (found.stamp_trusted, found.good) == (False, False)
    (found,) = check_signatures(target.read_bytes())
    assert (found.stamp_trusted, found.good) == (None, True)


def test_an_authority_that_gives_no_time_stamp_is_said_and_nothing_is_written(office, tmp_path, capsys):
    target = tmp_path / "stamped.pdf"
    command = ["sign", str(office / "sheet.pdf"), "--key", str(office / "key.pem"), "--cert", str(office / "cert.pem")]
    command += ["--output", str(target), "--timestamp"]
    other = asyncio.run(stamper_of(office).async_timestamp(bytes(32), "sha256"))
    of_another = tsp.TimeStampResp({"status": {"status": "granted"}, "time_stamp_token": other}).dump()
    for wrong, says in (
        (("text/html", b"<p>hello"), "what answers there is no time stamp authority: it sends text/html"),
        (("application/timestamp-reply", of_another), "the authority gave no time stamp of this:"),
        (("application/timestamp-reply", b"nothing"), "the authority gave no time stamp of this:"),
    ):
        with time_stamp_authority(office, wrong=wrong) as url:
            assert main([*command, url]) == 2
        assert says in capsys.readouterr().err
    assert main([*command, url]) == 2  # nobody is there any more
    assert "does not answer: " in capsys.readouterr().err
    assert main([*command, "tsa.example"]) == 2
    assert "write the URL of a time stamp authority" in capsys.readouterr().err
    assert not target.exists()


# pytest-netperf verify


def of_sheet(text):
    return [line.strip() for line in text.splitlines() if "sheet.signed.pdf" in line or "nobody signed" in line]


def test_verify_says_what_the_signature_of_a_sheet_proves(office, tmp_path, capfd):
    row = make_row("another")
    (sheet,) = build_sheets(RUN, plan_of([row]), [row], complete=True)
    paths = write_sheet(sheet, tmp_path, form=SheetForm(formats=("pdf", "json")))
    pdf, signed = paths.files["pdf"], paths.folder / "sheet.signed.pdf"
    main(["verify", str(paths.folder)])
    assert of_sheet(capfd.readouterr().out) == [
        "not proven  nobody signed it: who can write all of its files can make all digests anew"
    ]
    sign_pdf(pdf, signed, office / "key.pem", office / "cert.pem")
    main(["verify", str(paths.folder), "--trust", str(office / "root.pem")])
    first, second = of_sheet(capfd.readouterr().out)
    assert first.startswith("proven      sheet.signed.pdf: signed by Example authoriser")
    assert second == "proven      sheet.signed.pdf is sheet.pdf with a signature behind it"
    main(["verify", str(paths.folder)])
    shown = capfd.readouterr()
    assert of_sheet(shown.out)[0].startswith("not proven  sheet.signed.pdf: signed by Example authoriser")
    assert shown.err == ""
    main(["verify", str(paths.folder), "--trust", str(office / "other.pem")])
    assert of_sheet(capfd.readouterr().out)[0].startswith("BROKEN      sheet.signed.pdf: signed by Example authoriser")
    # A sheet that somebody else's signature stands behind.
    signed.write_bytes((office / "signed.pdf").read_bytes())
    assert main(["verify", str(paths.folder)]) == 1
    assert "BROKEN      sheet.signed.pdf is not sheet.pdf with a signature behind it" in capfd.readouterr().out
    signed.write_bytes(b"no PDF")
    assert main(["verify", str(paths.folder)]) == 1
    assert "BROKEN      sheet.signed.pdf: cannot read this PDF" in capfd.readouterr().out
    assert main(["verify", str(paths.folder), "--trust", str(tmp_path / "none.pem")]) == 2
    assert "cannot read a trusted certificate" in capfd.readouterr().err
