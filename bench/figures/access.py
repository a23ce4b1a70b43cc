"""What it costs that a hub knows its callers: single events and pages, with tokens and without."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.figures.publish import PUBLISHERS
from bench.load.program import Program
from bench.logs import make_feed, make_log
from bench.measure import in_turn
from bench.place import Place
from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub

PAGE = 1000
TARGET = Target(">=", 0.95)
_LISTED = [{"data_type": "service", "value": name} for name in ("bench", "other", "another")]


@figure("access")
def access(place: Place, scale: Scale) -> Iterable[Row]:
    """A hub that asks for tokens, beside one that asks nobody."""
    given: dict[str, Any] = {"feed": FEED, "connections": PUBLISHERS}
    yield from _compare(place, scale, "32 publishers of single events", "bench.load.publish_single", given, events=0)
    given = {"feed": FEED, "form": "v1", "page": PAGE, "events": scale.events, "first": "_first"}
    yield from _compare(place, scale, "pages of 1000", "bench.load.read", given, events=scale.events)


def _compare(
    place: Place, scale: Scale, what: str, program: str, given: dict[str, Any], *, events: int
) -> Iterable[Row]:
    urls = [place.sqlite() for _ in range(2)]
    for url in urls:
        if events:
            make_log(url, events)
        else:
            make_feed(url)
    token = _make_token(urls[0])
    with ExitStack() as stack:
        asking = stack.enter_context(live_hub(urls[0], log=place.log, options=["--auth", "token"]))
        open_to_all = stack.enter_context(place.hub(urls[1]))
        sides = {
            "asking": Program(program, port=asking.port, token=token, **given),
            "open": Program(program, port=open_to_all.port, **given),
        }
        rates = {name: rate_of(stack.enter_context(side), scale) for name, side in sides.items()}
        rounds = in_turn(rates, scale.rounds)
    for url in urls:
        place.drop(url)
    ours, beside = rate(rounds.median("asking")), rate(rounds.median("open"))
    yield Row(f"{what}: with a token beside without", ours, beside, rounds.ratio("asking", "open"), TARGET)


def _make_token(url: str) -> str:
    """Give the feed lists, and return a token of one who is on them."""
    store = open_store(url)
    try:
        hub = Hub(store)
        lists = dict.fromkeys(("admins", "readers", "writers"), _LISTED)
        hub.registry.replace(FEED, hub.registry.load(FEED).event_type.definition | {"authorization": lists})
        return hub.admin.tokens.create(Caller("service", "bench")).secret
    finally:
        store.close()
