"""Clients send credentials, follow a token file, and show no secret."""

import asyncio
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from penstock.client import AsyncClient, BearerToken, Client, Feed, TokenFile
from penstock.core.access import Caller
from penstock.errors import AccessDenied, BadParameter, Unauthenticated
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub, live_hub

LISTS = {each: [{"data_type": "service", "value": "shop"}] for each in ("admins", "readers", "writers")}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub that asks for tokens."""
    folder = tmp_path_factory.mktemp("credentials")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=["--auth", "token"]) as running:
        yield running


@pytest.fixture
def direct(hub: LiveHub) -> Iterator[Hub]:
    found = Hub(open_store(hub.database))
    yield found
    found.stop()


def create_token(direct: Hub, name: str = "shop") -> str:
    return direct.admin.tokens.create(Caller("service", name)).secret


def test_client_sends_a_token_with_each_request(hub: LiveHub, direct: Hub) -> None:
    with Client(hub.url, auth=create_token(direct)) as client:
        client.create_event_type("order.sent", authorization=LISTS)
        client.publish("order.sent", [{"id": 1}])
    with Feed(f"{hub.url}/feeds/order.sent", auth=BearerToken(create_token(direct))) as feed:
        assert [event.data["id"] for event in feed.read(feed.cursors()).events] == [1]


def test_asynchronous_client_sends_a_token(hub: LiveHub, direct: Hub) -> None:
    async def list_event_types() -> int:
        async with AsyncClient(hub.url, auth=create_token(direct)) as client:
            return len(await client.event_types())

    assert asyncio.run(list_event_types()) >= 0


def test_refusals_are_errors_of_their_own(hub: LiveHub, direct: Hub) -> None:
    with Client(hub.url, auth=create_token(direct)) as client:
        readers = {"readers": [{"data_type": "service", "value": "reader"}]}
        client.create_event_type("order.kept", authorization=LISTS | readers)
    with Client(hub.url) as client, pytest.raises(Unauthenticated):
        client.event_types()
    with Client(hub.url, auth="pst_" + "x" * 43) as client, pytest.raises(Unauthenticated) as refused:
        client.event_types()
    assert "xxxx" not in f"{refused.value} {refused.value.fields} {pickle.loads(pickle.dumps(refused.value))}"
    with Client(hub.url, auth=create_token(direct, "reader")) as client, pytest.raises(AccessDenied) as denied:
        client.publish("order.kept", [{"id": 1}])
    assert (denied.value.operation, denied.value.resource) == ("WRITE", "event-type:order.kept")


def test_token_file_is_followed_while_a_client_runs(hub: LiveHub, direct: Hub, tmp_path: Path) -> None:
    file, first = tmp_path / "shop.token", direct.admin.tokens.create(Caller("service", "shop"))
    file.write_text(first.secret + "\n")
    with Client(hub.url, auth=TokenFile(file)) as client:
        client.event_types()
        second = direct.admin.tokens.rotate(first.token.id, overlap=0)
        replacement = tmp_path / "new"
        replacement.write_text(second.secret)
        replacement.replace(file)
        for _ in range(3):
            client.event_types()
        file.unlink()
        client.event_types()  # It keeps the last one.


class _Seen(BaseHTTPRequestHandler):
    """Answers 401 to the first credential that it sees, or redirects to `target`; keeps what it is sent."""

    refused = "no credential"
    target: str | None = None
    seen: list[str | None]

    def do_GET(self) -> None:
        credential = self.headers["Authorization"]
        self.seen.append(credential)
        if self.target is not None:
            self.send_response(307)
            self.send_header("Location", self.target + self.path)
        else:
            self.send_response(401 if credential == self.refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def serve(**traits: object) -> tuple[ThreadingHTTPServer, list[str | None]]:
    seen: list[str | None] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Seen", (_Seen,), {"seen": seen, **traits}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server, seen


def close(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


def test_refused_request_is_sent_once_more_with_a_new_token_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    server, seen = serve(refused="Bearer old")
    try:
        with httpx2.Client(
            auth=TokenFile(file), event_hooks={"response": [lambda _: file.write_text("newer")]}
        ) as http:
            assert http.get(f"http://127.0.0.1:{server.server_address[1]}/").status_code == 200
    finally:
        close(server)

    assert seen == ["Bearer old", "Bearer newer"]


def test_redirect_to_another_origin_carries_no_credential() -> None:
    other, seen_there = serve()
    server, seen = serve(target=f"http://localhost:{other.server_address[1]}")
    try:
        with Client(f"http://127.0.0.1:{server.server_address[1]}", auth="secret-token") as client:
            client.event_types()
    finally:
        close(server)
        close(other)

    assert seen == ["Bearer secret-token"]
    assert seen_there == [None]


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "grün", "x" * 20_000])
def test_unusable_token_is_refused_without_being_shown(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    for make in (lambda: Client("http://hub", auth=token), lambda: TokenFile(file)):
        with pytest.raises(BadParameter) as refused:
            make()
        assert not token or token not in str(refused.value)


def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"nosuch cannot be read"):
        TokenFile(tmp_path / "nosuch")


def test_credential_and_own_client_are_refused_together() -> None:
    with httpx2.Client() as http, pytest.raises(BadParameter, match="auth goes without http"):
        Client("http://hub", http=http, auth="x")


def test_representations_show_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-token")

    assert "secret" not in repr(BearerToken("secret-token"))
    assert "secret-token" not in repr(TokenFile(file))
    assert "secret" not in repr(vars(Client("http://hub", auth="secret-token")))
