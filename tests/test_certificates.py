"""Clients of tests load certificates once."""

import ssl

import httpx2
import pytest


def test_clients_share_their_certificates_until_the_environment_names_others(monkeypatch: pytest.MonkeyPatch) -> None:
    first = httpx2.create_ssl_context()
    assert httpx2.create_ssl_context() is first

    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    with pytest.raises(FileNotFoundError):
        httpx2.create_ssl_context()
    assert httpx2.create_ssl_context(verify=False) is not first
    assert first.verify_mode is ssl.CERT_REQUIRED
