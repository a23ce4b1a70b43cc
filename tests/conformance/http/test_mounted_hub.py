"""A hub mounted in an application on uvicorn keeps its promises with each protocol class, whatever that does itself."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import httpx2
import pytest

from penstock.testing.port import free_port
from tests.conformance.http.front import (
    DELETE,
    FEED,
    REFUSED,
    STORED,
    STORED_AND_CLOSED,
    Case,
    Front,
    Outcome,
    case,
    post,
    post_chunked,
    raw,
)
from tests.conformance.http.test_upgrades import OFFERS
from tests.listening import wait_until_it_listens

OURS: Final = "penstock.server.http.http1:Http1Protocol"
"""The class as `docs/decisions/http-server.md` has users name it."""
APP: Final = """\
from starlette.applications import Starlette
from penstock.server import HubApp

hub = HubApp("sqlite:///hub.db")
app = Starlette(lifespan=hub.lifespan)
app.mount("/", hub)
"""
OFFERED: Final = OFFERS["h2c as Java's HttpClient and curl --http2 offer it"]
STORED_OR_REFUSED: Final = (STORED, STORED_AND_CLOSED, REFUSED)
NOTHING_DONE: Final = tuple(
    Outcome((status,), stays=stays) for status in (400, 404, 405, 422) for stays in (True, False)
)

PUBLISHES = [
    case("in one segment", post(*OFFERED), *STORED_OR_REFUSED),
    case("after its head", [post(*OFFERED)[:-9], post()[-9:]], *STORED_OR_REFUSED),
    case(
        "in chunks",
        post_chunked(b"12\r\n", post()[-18:], b"\r\n0\r\n\r\n", headers=(*OFFERED, "Transfer-Encoding: chunked")),
        *STORED_OR_REFUSED,
    ),
]
SMUGGLED = [
    case(f"{line} {name}", [head, DELETE] if name == "after its head" else head + DELETE, *NOTHING_DONE)
    for line in (f"POST /feeds/{FEED}", "POST /nowhere", "PUT /version", "DELETE /subscriptions/nobody")
    for head in [raw(f"{line} HTTP/1.1", "Host: hub", *OFFERED, f"Content-Length: {len(DELETE)}")]
    for name in ("in one segment", "after its head")
]


@pytest.fixture(scope="module", params=["httptools", "h11", OURS])
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A hub in an application that uvicorn serves with one of its own protocol classes, or with ours."""
    folder, port = tmp_path_factory.mktemp("mounted"), free_port()
    (folder / "shop.py").write_text(APP)
    command = [sys.executable, "-m", "uvicorn", "--http", request.param, "--port", str(port), "shop:app"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_until_it_listens(process, port, folder / "log")
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
            yield Front(port, client)
    finally:
        process.terminate()
        process.wait(timeout=120)


@pytest.mark.parametrize("each", PUBLISHES, ids=lambda each: each.name)
def test_publish_that_offers_an_upgrade_is_stored_or_refused(mounted: Front, each: Case) -> None:
    mounted.check(each)


@pytest.mark.parametrize("each", SMUGGLED, ids=lambda each: each.name)
def test_body_of_a_request_that_offers_an_upgrade_is_never_executed(mounted: Front, each: Case) -> None:
    mounted.check(each)
