"""Requests that last end once their JSON Web Token is no longer valid."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
import uvicorn

from penstock.core.events.event import NewEvent
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.issuer_keys import IssuerKeys
from penstock.server.authentication.jwt import JwtMethod
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from penstock.testing.port import free_port
from tests.server.authentication.issuer import AUDIENCE, ISSUER, jwk, key_set, rsa_key, sign


class Running(NamedTuple):
    """A hub in this process, and the document that has its issuer's keys."""

    hub: Hub
    http: httpx2.Client
    keys: list[bytes]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    documents = [key_set(jwk(rsa_key(), kid="first"))]
    keys = IssuerKeys(lambda: documents[-1], "test", interval=0.02)
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
    store.migrate()
    hub = Hub(store)
    app = HubApp(lambda: hub, authentication=[JwtMethod(ISSUER, [AUDIENCE], keys)])
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        hub.registry.create(an_event_type("order.placed"))
        headers = {"authorization": f"Bearer {sign().decode()}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=60) as http:
            yield Running(hub, http, documents)
    finally:
        server.should_exit = True
        thread.join(300)


def withdraw_key(running: Running) -> None:
    """Replace the issuer's key, and wait until the hub refuses the old one."""
    running.keys.append(key_set(jwk(rsa_key(1), kid="second")))
    while running.http.get("/event-types").status_code != 401:
        time.sleep(0.01)


def publish(running: Running, data: bytes) -> None:
    running.hub.log.publish("order.placed", [NewEvent.of(data)])


def test_description_of_the_interface_says_how_callers_authenticate(running: Running) -> None:
    document = running.http.get("/openapi.json").json()

    assert document["security"] == [{"bearer": []}]


def test_stream_sends_no_event_after_the_key_of_its_token_is_withdrawn(running: Running) -> None:
    publish(running, b'{"id":1}')
    cursors = '[{"partition":"0","offset":"BEGIN"}]'
    with running.http.stream(
        "GET", "/event-types/order.placed/events", headers={"X-Nakadi-Cursors": cursors}
    ) as stream:
        lines = stream.iter_lines()
        assert '"id":1' in next(lines)

        withdraw_key(running)
        publish(running, b'{"id":2}')
        rest = list(lines)

    assert not any('"id":2' in line for line in rest)


def test_stream_without_events_ends_when_the_key_of_its_token_is_withdrawn(running: Running) -> None:
    with running.http.stream("GET", "/event-types/order.placed/events?batch_flush_timeout=600") as stream:
        assert stream.status_code == 200
        withdraw_key(running)

        list(stream.iter_lines())


def test_long_poll_has_no_event_after_the_key_of_its_token_is_withdrawn(running: Running) -> None:
    answers: list[httpx2.Response] = []
    waiting = threading.Thread(
        target=lambda: answers.append(running.http.get("/feeds/order.placed?n=1&cursor0=_last&wait=50"))
    )
    waiting.start()
    while not running.hub.log.watch.waiting:
        time.sleep(0.005)

    withdraw_key(running)
    publish(running, b'{"id":2}')
    waiting.join(300)

    assert '"id":2' not in answers[0].text
