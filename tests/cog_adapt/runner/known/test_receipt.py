"""A receipt that was changed, or signed by another, is refused."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from cog_adapt.runner.errors import ConfigError, InputError
from cog_adapt.runner.known.receipt import FORMAT, Signer, read_receipt, sealed

VALUES = {"recipe": {"learning_rate": 1e-05, "seed": 1.0}, "report": {"losses": [0.5, 1e20]}}


def write_keys(folder, key):
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pem").write_bytes(private)
    (folder / "public.pem").write_bytes(public)
    return folder / "key.pem", folder / "public.pem"


@pytest.fixture
def keys(tmp_path):
    return write_keys(tmp_path, Ed25519PrivateKey.generate())


@pytest.fixture
def signed(keys):
    return sealed(VALUES, Signer(keys[0]))


def test_one_reads_as_it_was_written_in_any_layout(signed, keys):
    for receipt in (sealed(VALUES, None), signed):
        again = json.dumps(dict(reversed(receipt.items())), indent=3)
        assert read_receipt(again) == receipt
        assert receipt["format"] == FORMAT
    assert read_receipt(json.dumps(signed), keys[1]) == signed


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": {"learning_rate": 1e-05, "seed": 2.0}},
        {"report": {"losses": [0.4, 1e20]}},
        {"more": 1},
        {"digest": "0" * 64},
    ],
)
def test_one_that_was_changed_is_refused_signed_or_not(signed, change):
    for receipt in (sealed(VALUES, None), signed):
        with pytest.raises(InputError, match=r"was changed: .* Fetch it again"):
            read_receipt(json.dumps(receipt | change))


def test_a_change_with_a_new_digest_is_refused_where_it_is_signed(signed):
    forged = sealed({"recipe": {}}, None) | {"signature": signed["signature"]}
    with pytest.raises(InputError, match="signature does not fit its content"):
        read_receipt(json.dumps(forged))


@pytest.mark.parametrize(
    "signature", [{}, {"public_key": "", "value": ""}, {"public_key": 1}, {"public_key": "é"}]
)
def test_a_signature_that_is_none_is_refused(signed, signature):
    with pytest.raises(InputError, match="signature does not fit"):
        read_receipt(json.dumps(signed | {"signature": signature}))


def test_another_signer_than_the_one_that_is_named_is_refused(signed, tmp_path, keys):
    (tmp_path / "other").mkdir()
    other, other_public = write_keys(tmp_path / "other", Ed25519PrivateKey.generate())
    with pytest.raises(InputError, match="was signed by .* and not by"):
        read_receipt(json.dumps(signed), other_public)
    forged = json.dumps(sealed(VALUES, Signer(other)))
    read_receipt(forged)
    with pytest.raises(InputError, match="was signed by"):
        read_receipt(forged, keys[1])
    with pytest.raises(InputError, match="is not signed"):
        read_receipt(json.dumps(sealed(VALUES, None)), keys[1])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "x"}', "3"])
def test_what_is_no_receipt_is_refused(text):
    with pytest.raises(InputError, match="this is no receipt"):
        read_receipt(text)


def test_another_format_is_refused():
    with pytest.raises(InputError, match="format is 'x/2'"):
        read_receipt(json.dumps({"format": "x/2", "digest": ""}))


def test_a_key_that_cannot_sign_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "none.pem").write_text("no key")
    rsa_key, rsa_public = write_keys(tmp_path, rsa.generate_private_key(65537, 2048))
    for path in (tmp_path / "none.pem", tmp_path / "missing.pem", rsa_key):
        with pytest.raises(ConfigError, match=r"RECEIPT_KEY is .*openssl genpkey"):
            Signer(path)
    for path in (tmp_path / "none.pem", rsa_public):
        with pytest.raises(InputError, match=r"Name (a PEM file|one of Ed25519)"):
            read_receipt(json.dumps(sealed(VALUES, None)), path)
