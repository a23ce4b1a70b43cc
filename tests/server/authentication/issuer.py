"""An issuer of JSON Web Tokens on this machine: keys, tokens, and an HTTP server for its key set."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any
from unittest.mock import Mock

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from penstock.server.authentication.jwt import JwtMethod
from penstock.server.http.requests import check_arrival
from tests.answering import answering

ISSUER = "https://login.example"
AUDIENCE = "penstock"


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return one of several private keys; to make one takes a tenth of a second."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: str = "P-256") -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key({"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1()}[curve])


@cache
def ed25519_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, **members: Any) -> dict[str, Any]:
    """Return the public part of a private key as a JSON Web Key."""
    public = key.public_key()
    algorithm: Any = {rsa.RSAPublicKey: RSAAlgorithm, ec.EllipticCurvePublicKey: ECAlgorithm}
    found = next((each for kind, each in algorithm.items() if isinstance(public, kind)), OKPAlgorithm)
    described: dict[str, Any] = found.to_jwk(public, as_dict=True)
    described.pop("key_ops", None)
    return described | {"use": "sig"} | members


def key_set(*keys: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Return the claims of a good token; those that are None are left out."""
    now = int(time.time())
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "billing", "iat": now, "nbf": now, "exp": now + 600} | changed
    return {name: value for name, value in found.items() if value is not None}


def sign(key: Any = None, algorithm: str = "RS256", headers: Mapping[str, Any] | None = None, **changed: Any) -> bytes:
    """Return a good token, but for *headers* and the claims that are *changed*."""
    headers = {"kid": "first"} if headers is None else headers
    return (
        jwt.PyJWS().encode(json.dumps(claims(**changed)).encode(), key or rsa_key(), algorithm, dict(headers)).encode()
    )


def part(value: Any) -> bytes:
    """Return a part of a token: base64url of JSON, or of bytes."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=")


def scope_of(token: bytes | None, *, scheme: bytes = b"Bearer") -> dict[str, Any]:
    headers = [(b"host", b"hub"), (b"user-agent", b"tests"), (b"accept", b"*/*")]
    if token is not None:
        headers.append((b"authorization", scheme + b" " + token))
    given = {"type": "http", "method": "GET", "path": "/", "headers": headers, "client": ("127.0.0.1", 1)}
    return dict(check_arrival(given).scope)


def started(tokens: JwtMethod) -> JwtMethod:
    tokens.start(Mock())
    return tokens


class Issuer:
    """An HTTP server that answers with a key set, well or badly."""

    def __init__(self) -> None:
        self.url = ""
        self.document = key_set(jwk(rsa_key(), kid="first"))
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay = 0.0
        """Seconds before each answer."""
        self.drip = 0.0
        """Seconds before each byte of the body."""
        self.configuration: dict[str, Any] | None = None
        self.paths: list[str] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.paths.append(request.path)
        time.sleep(self.delay)
        body = self.document
        if request.path.endswith("/.well-known/openid-configuration"):
            body = json.dumps(self.configuration or {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        request.send_response(self.status)
        for name, value in ({"Content-Length": str(len(body))} | self.headers).items():
            request.send_header(name, value)
        request.end_headers()
        for piece in [body[at : at + 1] for at in range(len(body))] if self.drip else [body]:
            time.sleep(self.drip)
            request.wfile.write(piece)


@contextmanager
def serving() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # The hub did not wait.
                issuer.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    with answering(Handler) as url:
        issuer.url = url
        yield issuer
