"""Shows that the demo's hub is secured: what it answers to whom, and that no token lies where none belongs."""

import mmap
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from penstock.cli.failures import CommandFailure
from penstock_demo.access import PIPELINE, PUBLISHER, STRANGER, HubAccess
from penstock_demo.dataset import DEPARTED
from penstock_demo.securing import Security

READING: Final = f"/feeds/{DEPARTED}?n=4&cursor0=_first&pagesizehint=1"
PUBLISHING: Final = f"/event-types/{DEPARTED}/events"
_TIMEOUT: Final = 30.0


class _Attempt(NamedTuple):
    caller: str | None
    """The caller; None: no token is sent."""
    method: str
    target: str
    status: int
    """The one that the hub has to answer."""


_ATTEMPTS: Final = (
    _Attempt(None, "GET", READING, 401),
    _Attempt(STRANGER, "GET", READING, 403),
    _Attempt(PUBLISHER, "GET", READING, 403),
    _Attempt(PIPELINE, "GET", READING, 200),
    _Attempt(PIPELINE, "POST", PUBLISHING, 403),
)


class Trial(NamedTuple):
    """A request to the hub, and its result."""

    caller: str
    request: str
    outcome: str


class Proof(NamedTuple):
    """The results of the checks of a secured hub."""

    tls: str
    """The version of TLS and the cipher that client and hub use."""
    trials: Sequence[Trial]


def try_hub(hub: HubAccess, security: Security) -> Proof:
    """Ask the hub as callers that it has to refuse, and as one that it has to answer; return what it said.

    Raises:
        CommandFailure: it has answered otherwise.
    """
    trusting = ssl.create_default_context(cafile=security.authority)
    with httpx2.Client(base_url=hub.url, verify=trusting, trust_env=False, timeout=_TIMEOUT) as client:
        trials = [_try(client, hub, each) for each in _ATTEMPTS]
    distrusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Trusts no authority.
    plain = hub.url.replace("https://", "http://")
    for who, url, context in (
        ("a client without the authority", hub.url, distrusting),
        ("a client without TLS", plain, trusting),
    ):
        trials.append(Trial(who, f"GET {url}", _try_to_connect(url, context)))
    return Proof(_describe_tls(hub.url, trusting), trials)


def _try(client: httpx2.Client, hub: HubAccess, attempt: _Attempt) -> Trial:
    caller, method, target, awaited = attempt
    auth = None if caller is None else hub.find_credential(caller)
    answer = client.request(method, target, auth=auth, content=b"[]" if method == "POST" else None)
    who, request = "nobody: no token" if caller is None else f"service:{caller}", f"{method} {target.partition('?')[0]}"
    if answer.status_code != awaited:
        raise CommandFailure(f"the hub answered {answer.status_code} instead of {awaited} to {request} of {who}")
    code = "" if answer.is_success else answer.json().get("type", "").rpartition(":")[2]
    return Trial(who, request, f"{awaited} {code}".strip())


def _try_to_connect(url: str, context: ssl.SSLContext) -> str:
    try:
        with httpx2.Client(verify=context, trust_env=False, timeout=_TIMEOUT) as client:
            answer = client.get(f"{url}/version")
    except httpx2.TransportError as error:
        return "no connection: " + ("unknown authority" if "CERTIFICATE_VERIFY_FAILED" in str(error) else "closed")
    raise CommandFailure(
        f"the hub answered {answer.status_code} at {url}, to a client that it should not have been able to"
    )


def _describe_tls(url: str, context: ssl.SSLContext) -> str:
    parts = urlsplit(url)
    with (
        socket.create_connection((parts.hostname or "", parts.port or 443), _TIMEOUT) as raw,
        context.wrap_socket(raw, server_hostname=parts.hostname) as connection,
    ):
        cipher = connection.cipher()
        return f"{connection.version()} {cipher[0] if cipher else ''}".strip()


def check_no_token_lies_about(directory: Path, tokens: Sequence[Path]) -> int:
    """Search all files in *directory* but *tokens* for the tokens, and return how many those are.

    Raises:
        CommandFailure: one is there.
    """
    secrets = [file.read_bytes().strip() for file in tokens]
    files = [each for each in directory.rglob("*") if each.is_file() and each not in tokens]
    for file in files:
        if file.stat().st_size == 0:
            continue
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if any(content.find(secret) >= 0 for secret in secrets):
                raise CommandFailure(f"a token is in {file}, where none belongs")
    return len(files)
