import threading

from penstock.core.cursor import FIRST
from penstock.hub.hub import Hub
from penstock.hub.read import Wanted
from penstock.testing.store_contract.database import data_of
from tests.promises.scene import JOINED, NAME, Follower, event, hub_on, seeded

PARTITIONS = 3


def test_a_page_is_the_same_however_often_and_by_whomever_it_is_read(database_url: str) -> None:
    chance = seeded()
    with hub_on(database_url, partitions=PARTITIONS) as hub, hub_on(database_url) as other:
        stop = threading.Event()
        publishing = threading.Thread(target=_publish_until, args=(other, stop))
        publishing.start()
        ends = [Follower(hub, range(PARTITIONS)).cursors]
        follower = Follower(hub, range(PARTITIONS))
        pages = []
        while len(pages) < 60:
            before = dict(follower.cursors)
            if not follower.page(chance.randint(1, 30)):
                continue
            ends.append(dict(follower.cursors))
            start, end = before, ends[-1]
            pages.append((start, end, _between(hub, start, end)))
            start, end, data = chance.choice(pages)
            assert _between(chance.choice([hub, other]), start, end) == data
        stop.set()
        publishing.join()

        for start, end, data in pages:
            assert _between(hub, start, end) == _between(other, start, end) == data
        whole = {p: b"\n".join(page[p] for *_, page in pages if page[p]) for p in range(PARTITIONS)}
        assert _between(other, ends[0], ends[-1]) == whole


def test_pages_of_any_size_make_the_same_feed(database_url: str) -> None:
    with hub_on(database_url, partitions=2) as hub:
        for n in range(40):
            hub.publish(NAME, [event({"n": n, "i": i}, (n * i) % 2) for i in range(n % 5 + 1)])

        whole = Follower(hub, (0, 1)).all(100_000)

        for size in (1, 2, 3, 17, 1000):
            assert Follower(hub, (0, 1)).all(size) == whole


def test_events_are_the_same_by_line_and_by_column(database_url: str) -> None:
    with hub_on(database_url, partitions=1) as hub:
        awkward = ["\\", "\t", "\\N", "Zoë 🚰", '"', "%s", "\u2028", "a" * 70_000]
        hub.publish(NAME, [event({"x": text}, key=f"k{n}", headers={"h": text[:9]}) for n, text in enumerate(awkward)])
        reading = hub.open(NAME, None, [Wanted("cursor0", 0, FIRST)], 1000)

        chunk = hub.next_columns(reading, reading.tracks[0])

        assert chunk is not None
        assert b"\n".join(data_of(chunk.columns)) == _between(hub, {0: FIRST}, Follower(hub).cursors | _end(hub))[0]


def _end(hub: Hub) -> dict[int, str]:
    follower = Follower(hub)
    follower.all()
    return follower.cursors


def _between(hub: Hub, start: dict[int, str], end: dict[int, str]) -> dict[int, bytes]:
    wanted = [Wanted(f"cursor{p}", p, start[p], end[p]) for p in start]
    reading = hub.open(NAME, None, wanted, 100_000)
    found = {}
    for track in reading.tracks:
        parts = []
        while chunk := hub.next_lines(reading, track, JOINED):
            parts.append(chunk.body)
        found[track.view.partition] = b"\n".join(parts)
    return found


def _publish_until(hub: Hub, stop: threading.Event) -> None:
    n = 0
    while not stop.is_set():
        hub.publish(NAME, [event({"n": n, "i": i}, i % PARTITIONS) for i in range(n % 4 + 1)])
        n += 1
