"""Events that were sealed in files of the cold tier are read with the same cursors, and are the same bytes."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.core.groups.groups import PositionCommit
from penstock.testing.clock import VirtualClock
from penstock.testing.live_hub import live_hub
from tests.exhaustive import is_exhaustive
from tests.promises.scene import NAME, Remote, create, event, rows_of, until
from tests.s3 import cold_url
from tests.sealing import EVENT_ROWS, seal, sealing_hub
from tests.served import ARROW, CLOUD_EVENTS

PARTITIONS, EVENTS = 2, 3_000
SIZES = (10, 1_500, 100_000)
KINDS = ("order.cancelled", "Ordre.ÅPNET", "ordre.åpnet")


@pytest.fixture
def cold(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a cold tier: with SQLite in a directory, with PostgreSQL in a bucket of a server that speaks S3."""
    return (tmp_path / "cold").as_uri() if url.startswith("sqlite") else cold_url(request.getfixturevalue("bucket"))


def test_every_page_of_a_sealed_feed_has_the_same_bytes(url: str, cold: str) -> None:
    options = ["--cold", cold, "--cold-after"]
    with live_hub(url, options=[*options, "never"]) as hub, closing(Remote(hub.port)) as remote:
        remote.create(PARTITIONS)
        publish(remote)
        paths = addresses(remote)
        before = [answer(remote, *each) for each in paths]
        assert {status for status, *_ in before} == {200}
    with live_hub(url, options=[*options, "0s"]) as hub, closing(Remote(hub.port)) as remote:
        until(lambda: len(rows_of(url, EVENT_ROWS)) == PARTITIONS, "all but the last events left the database")
        after = [answer(remote, *each) for each in paths]

    for path, one, other in zip(paths, before, after, strict=True):
        assert one == other, path


def publish(remote: Remote) -> None:
    """Publish events of all shapes: with and without key, kind and headers, of many sizes and characters."""
    for start in range(0, EVENTS, 500):
        lines = []
        for n in range(start, start + 500):
            event = {"data": {"n": n, "text": "é" * (n % 40)}, "partition": n % PARTITIONS}
            if n % 3:
                event["key"] = f"key-{n % 7}\u2028"
            headers = {} if n % 11 else {"trace": f"{n}"}
            if n % 5 < len(KINDS):
                headers["ce_type"] = KINDS[n % 5]
            if headers:
                event["headers"] = headers
            lines.append(json.dumps(event).encode())
        status, body, _ = remote.ask("POST", remote.path, b"\n".join(lines))
        assert status == 200, body


def addresses(remote: Remote) -> Sequence[tuple[str, str]]:
    """Return addresses of pages, and as what they are asked for: by each protocol, filtered, split and merged.

    `make test` has each two of a view, a filter and a size, and `make test-all` each three.
    """
    _, cursor = remote.page("_first", n=PARTITIONS, size=1_234)
    feed, events, nakadi = f"/feeds/{NAME}", f"/feeds/{NAME}/events", f"/event-types/{NAME}/events"
    kinds = quote("ORDER.Cancelled;ordre.ÅPNET")
    filters = ("", "&headers=_all", f"&event-types={kinds}", f"&skip-event-types={kinds}")
    views = (
        (2, f"cursor0={cursor}"),
        (2, "cursor0=_first&cursor1=_first"),
        (1, "cursor0=_first"),
        (8, "cursor5=_first"),
    )
    found = [
        f"{feed}?n={n}&{cursors}&pagesizehint={size}{each}"
        for view, (n, cursors) in enumerate(views)
        for filtered, each in enumerate(filters)
        for size in (SIZES if is_exhaustive() else [SIZES[(view + filtered) % len(SIZES)]])
    ]
    found += [f"{events}?token=1-2&partition=1&cursor=_first&pagesizehint=2000{each}" for each in filters]
    return (
        [(each, form) for each in found for form in ("*/*", ARROW)]
        + [(each, CLOUD_EVENTS) for each in found[::3]]
        + [(f"{nakadi}?batch_limit=500&stream_limit=1000", "*/*")]
    )


def answer(remote: Remote, path: str, form: str) -> tuple[int, bytes, str | None]:
    """Return status, body and the cursor in the headers of a page."""
    headers = {"Accept": form}
    if path.startswith("/event-types"):
        headers["X-Nakadi-Cursors"] = json.dumps([{"partition": "1", "offset": "BEGIN"}])
    status, body, answered = remote.ask("GET", path, headers=headers)
    return status, body, answered["Penstock-Cursor"]


def test_lag_of_a_group_within_files_is_the_age_of_the_first_event_of_its_file(url: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    with sealing_hub(url, (tmp_path / "cold").as_uri(), clock=clock) as hub:
        create(hub, partitions=1)
        times = []
        for _ in range(3):
            for n in range(10):
                clock.advance(seconds=60)
                times.append(clock())
                hub.log.publish(NAME, [event({"n": n})])
            seal(hub)
        for offset, expected in ((0, 0), (5, 0), (9, 9), (25, 19), (29, 29), (30, None)):
            hub.groups.commit("mailer", "processor", [PositionCommit(NAME, 0, offset)])
            since = None if expected is None else times[expected]

            with hub.store.read() as tx:
                [measured] = tx.groups.measure(10).groups
                [standing] = tx.groups.list_standings(["mailer"])
            assert (measured.gap, measured.received_at) == (30 - offset, since)
            assert standing.received_at == since
