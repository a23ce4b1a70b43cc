"""Processors read a hub that asks for tokens, and keep how far they are there."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import Client, TokenFile
from penstock.core.access import Caller
from penstock.errors import BadParameter, Unauthenticated
from penstock.hub.hub import Hub
from penstock.processing import FeedSource, HubCheckpoints, LocalProcessor, SubscriptionSource
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub

SHOP = Caller("service", "shop")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tokens")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=["--auth", "token"]) as running:
        hub = Hub(open_store(running.database))
        (folder / "token").write_text(hub.admin.tokens.create(SHOP).secret)
        hub.stop()
        with Client(running.url, auth=TokenFile(folder / "token")) as client:
            client.create_event_type("order.placed", partition_count=2)
            client.publish("order.placed", [{"n": 1}, {"n": 2}])
        yield f"{running.url} {folder / 'token'}"


@pytest.mark.parametrize("kind", ["feed", "subscription"])
def test_processor_sends_the_token_of_a_file(url: str, kind: str) -> None:
    url, file = url.split()
    auth, seen = TokenFile(file), list[Any]()

    def handle(_: str, events: Any) -> None:
        seen.extend(event.data["n"] for event in events)

    if kind == "feed":
        source: Any = FeedSource(url, "order.placed", auth=auth)
        kept: Any = HubCheckpoints(url, "seen", auth=auth)
    else:
        wanted = {"owning_application": "shop", "event_types": ["order.placed"], "read_from": "begin"}
        source, kept = SubscriptionSource(url, wanted, auth=auth), None
    processor = LocalProcessor(handle, source, checkpoints=kept) if kept else LocalProcessor(handle, source)
    with processor as running:
        running.wait_until_caught_up(60)

    assert sorted(seen) == [1, 2]
    if kind == "feed":
        assert len(kept.positions()) == 2


def test_source_without_a_token_is_refused(url: str) -> None:
    url, _ = url.split()
    with FeedSource(url, "order.placed") as source, pytest.raises(Unauthenticated, match="needs a valid credential"):
        source.tranches()


def test_token_and_own_client_are_refused_together(url: str) -> None:
    url, file = url.split()
    for make in (
        lambda: FeedSource(url, "order.placed", http=object(), auth=TokenFile(file)),
        lambda: HubCheckpoints(url, "seen", http=object(), auth="token"),
    ):
        with pytest.raises(BadParameter, match="auth goes without http"):
            make()


def test_representations_of_sources_show_no_token() -> None:
    source, kept = FeedSource("http://hub", "a", auth="geheim"), HubCheckpoints("http://hub", "g", auth="geheim")

    assert "geheim" not in repr(vars(source)) + repr(vars(source._exchanges)) + repr(vars(kept))
