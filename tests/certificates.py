"""Certificates that clients of tests trust: loaded once, not once for each client, which takes 50 ms of a processor."""

import functools
import os
import ssl
from typing import Final

import httpcore2

_load: Final = httpcore2.default_ssl_context


@functools.cache
def _loaded(trusts_environment: bool, file: str | None, directory: str | None) -> ssl.SSLContext:
    return _load(_trust_env=trusts_environment)


def default_ssl_context(*, _trust_env: bool = True) -> ssl.SSLContext:
    """Return what `httpcore2.default_ssl_context` returns, one for each setting of the environment."""
    return _loaded(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


def share_certificates() -> None:
    """Have all clients of `httpx2` in this process share their certificates."""
    httpcore2.default_ssl_context = default_ssl_context
