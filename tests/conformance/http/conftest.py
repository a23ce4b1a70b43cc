"""The HTTP front as clients reach it: directly, and through nginx."""

from collections.abc import Iterator

import pytest

from penstock.testing.live_hub import live_hub
from tests.conformance.http.front import Front
from tests.conformance.http.nginx import Nginx, nginx
from tests.served import client_of

HEADER_SECONDS = 1
BODY_SECONDS = 2
FRONTS = ("direct", "nginx", "nginx piecewise")


@pytest.fixture(scope="package")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A hub for all cases. It has their event types for itself."""
    folder = tmp_path_factory.mktemp("front")
    with (
        live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=["--insecure"]) as hub,
        client_of(hub) as client,
    ):
        yield Front(hub.port, client)


@pytest.fixture(scope="package")
def proxy(direct: Front) -> Iterator[Nginx]:
    """A running nginx before the hub."""
    with nginx(direct.port) as started:
        yield started


@pytest.fixture(scope="package", params=FRONTS)
def front(request: pytest.FixtureRequest, direct: Front) -> Front:
    """The hub itself, and the hub behind nginx, which hands on bodies whole or piece by piece."""
    if request.param == "direct":
        return direct
    started: Nginx = request.getfixturevalue("proxy")
    port = started.whole if request.param == "nginx" else started.piecewise
    return Front(port, direct.http, started.log)


@pytest.fixture(scope="package")
def impatient_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A hub that waits for heads and bodies no longer than a test can."""
    folder = tmp_path_factory.mktemp("impatient")
    limits = ["--header-timeout", str(HEADER_SECONDS), "--body-timeout", str(BODY_SECONDS)]
    with (
        live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=["--insecure", *limits]) as hub,
        client_of(hub) as client,
    ):
        yield Front(hub.port, client)
