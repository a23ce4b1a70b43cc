"""How fast nginx's cache serves the history of a feed, beside nginx serving files of the same size."""

import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of, served_log
from bench.load.http1 import Connection
from bench.load.program import Program
from bench.load.read import Pages
from bench.measure import in_turn
from bench.peers.servers import nginx_server
from bench.place import ROOT, Place
from penstock.testing.port import free_port

PAGE: Final = 1_000
GUIDE: Final = ROOT / "docs/guides/serving-thousands-of-readers.md"


@figure("cached-history", "reading", asked_for=True)
def cached_history(place: Place, scale: Scale) -> Iterable[Row]:
    """History through nginx's cache, in pages of 1000, beside files of the same size; by name only."""
    events, port = scale.events, free_port()
    files = place.directory / "pages"
    files.mkdir()
    with ExitStack() as stack:
        log = stack.enter_context(served_log(place, events + 1))
        settings = configure_cache(log.hub.port, port, place.directory)
        static = stack.enter_context(nginx_server(place.directory, files, settings))
        store_pages(port, files, events)
        given = {"feed": FEED, "page": PAGE, "events": events}
        readers = {
            "cache": Program("bench.load.read", port=port, form="v1", first="_first", **given),
            "file": Program("bench.load.read", port=static, form="file", first="0", **given),
        }
        sides = {name: rate_of(stack.enter_context(each), scale) for name, each in readers.items()}
        rounds = in_turn(sides, scale.rounds)
    cached, static_rate = rate(rounds.median("cache")), rate(rounds.median("file"))
    what = "nginx's cache beside nginx serving files"
    yield Row(what, cached, static_rate, rounds.ratio("cache", "file"), Target(">=", 0.5))


def configure_cache(hub_port: int, port: int, directory: Path) -> str:
    """Return the configuration of the guide, for a hub and a port of this machine."""
    settings: str = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[0]
    for given, here in (
        ("127.0.0.1:8080", f"127.0.0.1:{hub_port}"),
        ("listen 8090", f"listen 127.0.0.1:{port}"),
        ("/var/cache/nginx", str(directory)),
    ):
        settings = settings.replace(given, here)
    return settings


def store_pages(port: int, files: Path, events: int) -> None:
    """Read the pages through the cache, which keeps them then, and write a file as large as each."""
    connection, pages = Connection(port), Pages("v1", FEED, PAGE, "_first")
    for start in range(0, events, PAGE):
        answer = connection.exchange(pages.request())
        pages.advance(answer)
        (files / str(start)).write_bytes(b"\n" * answer.bytes)
