import threading
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from penstock.client.feed import Feed
from penstock.core.cursor import LAST
from penstock.errors import BadParameter, EventUnfit, ServerError
from tests.unit.client.handler import Body, Handlers, json, lines, streamed

DISCOVERY = json({"token": "t", "partitions": [{"id": "0"}, {"id": "1"}], "exactlyOnce": True})
EVENT = ('{"partition":0,"data":{"n":1}}', '{"partition":0,"cursor":"a"}')


@dataclass
class Numbered:
    n: int


def feed(handlers: Handlers, **options: Any) -> Feed:
    return Feed("http://s/feed", http=handlers.client(), patience=0, **options)


def test_a_feed_tells_what_it_speaks_and_where_to_begin() -> None:
    handlers = Handlers(DISCOVERY)
    known = feed(handlers)

    assert known.discover().exactly_once
    assert known.cursors() == {0: "_first", 1: "_first"}
    assert known.cursors(LAST) == {0: "_last", 1: "_last"}
    assert known.cursors(partitions=range(1, 2)) == {1: "_first"}
    assert known.url == "http://s/feed"
    assert len(handlers.requests) == 1


def test_discovery_can_be_asked_for_again() -> None:
    handlers = Handlers(DISCOVERY, json({"token": "t2", "partitions": [{"id": "7"}]}))
    known = feed(handlers)

    assert known.discover().ids == [0, 1]
    assert known.discover().ids == [7]


def test_options_are_handed_on() -> None:
    handlers = Handlers(lines(*EVENT))

    page = feed(handlers, version=1, partition_count=1).read({0: "_first"}, page_size_hint=5, headers="_all")

    assert page.events[0].data == {"n": 1}
    assert handlers.urls == ["http://s/feed?n=1&cursor0=_first&pagesizehint=5&headers=_all"]


def test_a_feed_with_a_type_gives_its_instances_however_it_is_read() -> None:
    typed = feed(Handlers(lines(*EVENT)), version=1, partition_count=1, type=Numbered)

    pages = [typed.read({0: "_first"}), typed.resume("me"), next(typed.follow())]
    version_two = feed(Handlers(DISCOVERY, lines(*EVENT)), type=Numbered).read({0: "_first"})

    assert [event.data for page in [*pages, version_two] for event in page.events] == [Numbered(1)] * 4


def test_an_event_that_does_not_fit_stops_nothing_but_its_own_use() -> None:
    wrong = '{"partition":0,"data":{"n":"one"}}'
    with feed(Handlers(lines(wrong, *EVENT)), version=1, partition_count=1, type=Numbered).follow() as pages:
        page = next(pages)
        with pytest.raises(EventUnfit, match="event 1 after cursor '_first' in partition 0 of http://s/feed is no Num"):
            page.events[0].data  # noqa: B018 - it is decoded now
        assert page.events[1].data == Numbered(1)
        assert page.cursors == {0: "a"}
        assert next(pages).since == {0: "a"}


def test_a_type_that_events_cannot_be_read_into_is_refused_before_anything_is_sent() -> None:
    handlers = Handlers()

    with pytest.raises(TypeError, match="Handlers cannot be read from JSON"):
        feed(handlers, type=Handlers)
    assert handlers.requests == []


def test_the_server_can_keep_the_cursors() -> None:
    handlers = Handlers(lines(*EVENT))
    known = feed(handlers, version=1, partition_count=1)

    assert known.resume("me", page_size_hint=3).cursors == {0: "a"}
    known.store("me", {0: "a"})

    assert handlers.urls == [
        "http://s/feed?n=1&cursorset=me&resume=0&pagesizehint=3",
        "http://s/feed?n=1&cursor0=a&cursorset=me&pagesizehint=0&store_cursor=1",
    ]


def test_following_waits_ten_seconds_a_request_unless_told_otherwise() -> None:
    handlers = Handlers(lines(*EVENT))
    known = feed(handlers, version=1, partition_count=1)

    next(known.follow())
    next(known.follow({0: "x"}, wait=0))

    assert handlers.urls == ["http://s/feed?n=1&cursor0=_first&wait=10", "http://s/feed?n=1&cursor0=x"]


def test_pages_can_be_closed_between_two() -> None:
    with feed(Handlers(lines(*EVENT)), version=1, partition_count=1).follow() as pages:
        next(pages)

    assert list(pages) == []


def test_pages_can_be_closed_while_they_pause() -> None:
    asked = threading.Event()

    def empty(_: httpx2.Request) -> httpx2.Response:
        asked.set()
        return httpx2.Response(200)

    pages = feed(Handlers(empty), version=1, partition_count=1).follow(poll_interval=3600)
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.extend(pages))
    reader.start()
    assert asked.wait(300)

    pages.close()

    reader.join(300)
    assert not reader.is_alive()
    assert got == []


def test_an_interruption_loses_nothing() -> None:
    known = feed(Handlers(streamed(Body(b'{"part', KeyboardInterrupt())), lines(*EVENT)), version=1, partition_count=1)
    pages = known.follow()

    with pytest.raises(KeyboardInterrupt):
        next(pages)

    assert next(pages).cursors == {0: "a"}


def test_an_error_ends_the_pages() -> None:
    pages = feed(Handlers(json({}, status=401)), version=1, partition_count=1).follow()

    with pytest.raises(ServerError):
        next(pages)
    assert list(pages) == []


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        feed(Handlers()).read({0: "x"}, pagesize=3)  # type: ignore[call-arg]


def test_a_bad_option_is_refused_before_anything_is_sent() -> None:
    handlers = Handlers()

    with pytest.raises(BadParameter):
        feed(handlers).follow(wait=-1)
    assert handlers.requests == []
