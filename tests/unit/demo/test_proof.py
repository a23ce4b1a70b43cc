"""What shows that the demo's hub is secured fails where the hub is not."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from penstock.cli.failures import CommandFailure
from penstock_demo.access import CALLERS, PIPELINE, PUBLISHER, HubAccess
from penstock_demo.proof import check_no_token_lies_about, try_hub
from penstock_demo.securing import Security, make_certificates


class Hub(BaseHTTPRequestHandler):
    """Answers as a secured hub, by the token, which is the caller's name."""

    is_open = False

    def do_GET(self) -> None:
        """Answer a reader."""
        self._answer(allowed=PIPELINE)

    def do_POST(self) -> None:
        """Answer a publisher."""
        self._answer(allowed=PUBLISHER)

    def _answer(self, allowed: str) -> None:
        caller = self.headers.get("Authorization", "").removeprefix("Bearer ")
        status, code = (
            (200, "") if caller == allowed else (403, "access-denied") if caller else (401, "unauthenticated")
        )
        if self.is_open:
            status = 200
        body = msgspec.json.encode({"type": f"urn:penstock:problem:{code}"})
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class Server(HTTPServer):
    """Says nothing of clients that do not come to a request."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@pytest.fixture
def security(tmp_path: Path) -> Security:
    tokens = {name: tmp_path / f"{name}.token" for name in CALLERS}
    for name, file in tokens.items():
        file.write_text(name)
    return Security(*make_certificates(tmp_path), tokens)


@contextmanager
def serving(security: Security, handler: type[Hub]) -> Iterator[HubAccess]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(security.certificate, security.key)
    with Server(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield HubAccess(f"https://127.0.0.1:{server.server_port}", security.tokens)
        finally:
            server.shutdown()
            thread.join()


def test_what_a_secured_hub_answers_is_told(security: Security) -> None:
    with serving(security, Hub) as hub:
        proof = try_hub(hub, security)

    assert proof.tls.startswith("TLSv1.3 TLS_AES")
    assert [(caller, outcome) for caller, _, outcome in proof.trials] == [
        ("nobody: no token", "401 unauthenticated"),
        ("service:stranger", "403 access-denied"),
        ("service:publisher", "403 access-denied"),
        ("service:pipeline", "200"),
        ("service:pipeline", "403 access-denied"),
        ("a client without the authority", "no connection: unknown authority"),
        ("a client without TLS", "no connection: closed"),
    ]


def test_hub_that_lets_in_whom_it_should_refuse_is_a_failure(security: Security) -> None:
    class Open(Hub):
        is_open = True

    with serving(security, Open) as hub, pytest.raises(CommandFailure) as failed:
        try_hub(hub, security)

    assert failed.value.detail.startswith("the hub answered 200 instead of 401 to GET /feeds/flights.departed")


def test_token_in_a_file_where_none_belongs_is_a_failure(tmp_path: Path) -> None:
    token, log = tmp_path / "tokens" / "a.token", tmp_path / "checkpoints" / "0" / "offsets.log"
    for file, content in ((token, "pst_secret\n"), (log, "nothing"), (tmp_path / "empty", "")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert check_no_token_lies_about(tmp_path, [token]) == 2

    log.write_text("Authorization: Bearer pst_secret")
    with pytest.raises(CommandFailure) as failed:
        check_no_token_lies_about(tmp_path, [token])
    assert failed.value.detail == f"a token is in {log}, where none belongs"
