"""Clients send credentials, follow a token file, and show no secret."""

import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx2
import pytest

from penstock.client import BearerToken, Client, InsecureTransportWarning, TokenFile
from penstock.core.access import Caller
from penstock.errors import AccessDenied, BadParameter, Unauthenticated
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub, live_hub
from tests.answering import answering
from tests.unit.client.kinds import Kind, opened, result

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


@pytest.mark.anyio
async def test_client_sends_a_token_with_each_request(hub: LiveHub, direct: Hub, kind: Kind) -> None:
    name = f"order.{kind.client.__name__}"
    async with opened(kind.client(hub.url, auth=create_token(direct))) as client:
        await result(client.create_event_type(name, authorization=LISTS))
        await result(client.publish(name, [{"id": 1}]))
    async with opened(kind.feed(f"{hub.url}/feeds/{name}", auth=BearerToken(create_token(direct)))) as feed:
        assert [event.data["id"] for event in (await result(feed.read({0: "_first"}))).events] == [1]


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
        second = direct.admin.tokens.rotate(first.token.id, overlap_seconds=0)
        replacement = tmp_path / "new"
        replacement.write_text(second.secret)
        replacement.replace(file)
        for _ in range(3):
            client.event_types()
        file.unlink()
        client.event_types()  # It keeps the last one.


class Seen(BaseHTTPRequestHandler):
    """Answers 401 to the first credential that it sees, or redirects to `target`; keeps what it is sent."""

    refused = "no credential"
    target: str | None = None
    seen: list[str | None]

    def do_GET(self) -> None:
        credential = self.headers["Authorization"]
        self.seen.append(credential)
        self.send_response(307 if self.target else 401 if credential == self.refused else 200)
        if self.target:
            self.send_header("Location", self.target + self.path)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def seeing(**traits: object) -> Iterator[tuple[str, list[str | None]]]:
    """Serve such answers; yield the URL, and the credentials that come."""
    seen: list[str | None] = []
    with answering(type("Noting", (Seen,), {"seen": seen, **traits})) as url:
        yield url, seen


def test_refused_request_is_sent_once_more_with_a_new_token_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    hooks = {"response": [lambda _: file.write_text("newer")]}
    with seeing(refused="Bearer old") as (url, seen), httpx2.Client(auth=TokenFile(file), event_hooks=hooks) as http:
        assert http.get(url).status_code == 200

    assert seen == ["Bearer old", "Bearer newer"]


def test_redirect_to_another_origin_carries_no_credential() -> None:
    with (
        seeing() as (other, seen_there),
        seeing(target=other.replace("127.0.0.1", "localhost")) as (url, seen),
        Client(url, auth="secret-token") as client,
    ):
        client.event_types()

    assert (seen, seen_there) == (["Bearer secret-token"], [None])


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "grün", "x" * 20_000])
def test_unusable_token_or_token_file_is_refused_without_being_shown(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    for make in (lambda: Client("http://hub", auth=token), lambda: TokenFile(file)):
        with pytest.raises(BadParameter) as refused:
            make()
        assert not token or token not in str(refused.value)
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


@pytest.mark.parametrize("is_file", [False, True], ids=["token", "file"])
@pytest.mark.parametrize(
    ("url", "is_clear"),
    [
        ("http://hub.example:8080/event-types", True),
        ("http://10.0.0.7/event-types", True),
        ("https://hub.example/event-types", False),
        ("http://127.0.0.1:8080/event-types", False),
        ("http://localhost/event-types", False),
    ],
)
def test_token_in_clear_text_to_another_machine_is_warned_of_without_the_token(
    tmp_path: Path, url: str, is_clear: bool, is_file: bool
) -> None:
    (tmp_path / "token").write_text("pst_secret")
    auth = TokenFile(tmp_path / "token") if is_file else BearerToken("pst_secret")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            next(auth.auth_flow(httpx2.Request("GET", url)))

    origin = url.removesuffix("/event-types")
    assert [(each.category, str(each.message).partition(" in clear")[0]) for each in found] == (
        [(InsecureTransportWarning, f"a token is sent to {origin}")] if is_clear else []
    )
