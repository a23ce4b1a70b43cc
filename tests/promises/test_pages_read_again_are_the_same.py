"""A page read again from the same cursor has the same events, byte for byte."""

import threading

from penstock.core.log.cursor import FIRST
from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from tests.exhaustive import examples
from tests.promises.scene import JOINED, Follower, create, event, seeded
from tests.reading import open_settled

WIDE, PARTITIONS = "wide", 3


def between(hub: Hub, start: dict[int, str], end: dict[int, str], name: str = WIDE) -> dict[int, bytes]:
    """Return the bytes of each partition between two cursors."""
    wanted = [WantedPartition(f"cursor{p}", p, start[p], end[p]) for p in start]
    reading = open_settled(hub, name, None, wanted, 100_000)
    found = {}
    for track in reading.tracks:
        parts = []
        while chunk := hub.log.reader.read_next_lines(reading, track, JOINED):
            parts.append(chunk.body)
        found[track.view.partition] = b"\n".join(parts)
    return found


def test_page_is_the_same_however_often_and_by_any_hub_it_is_read(hub: Hub, other: Hub) -> None:
    chance, stop = seeded(), threading.Event()
    create(hub, WIDE, partitions=PARTITIONS)

    def publish() -> None:
        n = 0
        while not stop.is_set():
            other.log.publish(WIDE, [event({"n": n, "i": i}, i % PARTITIONS) for i in range(n % 4 + 1)])
            n += 1

    publishing = threading.Thread(target=publish)
    publishing.start()
    follower = Follower(hub, range(PARTITIONS), WIDE)
    pages = []
    while len(pages) < examples(30, 100):
        start = dict(follower.cursors)
        if not follower.page(chance.randint(1, 30)):
            continue
        end = dict(follower.cursors)
        pages.append((start, end, between(hub, start, end)))
        start, end, data = chance.choice(pages)
        assert between(chance.choice([hub, other]), start, end) == data
    stop.set()
    publishing.join()

    for start, end, data in pages:
        assert between(hub, start, end) == between(other, start, end) == data
    whole = {p: b"\n".join(data[p] for *_, data in pages if data[p]) for p in range(PARTITIONS)}
    assert between(other, dict.fromkeys(range(PARTITIONS), FIRST), follower.cursors) == whole


def test_pages_of_any_size_make_the_same_feed(hub: Hub) -> None:
    create(hub, WIDE, partitions=2)
    for n in range(20):
        hub.log.publish(WIDE, [event({"n": n, "i": i}, (n * i) % 2) for i in range(n % 5 + 1)])

    whole = Follower(hub, (0, 1), WIDE).all(100_000)

    for size in (1, 2, 3, 17, 1000):
        assert Follower(hub, (0, 1), WIDE).all(size) == whole
