"""What a stream of server-sent events reads: sealed events and others, without those that are gone."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from penstock.server.log.server_sent_events import STEP_BYTES, MessageStep, MessageWriter
from penstock.storage.log.events import CHUNK_BYTES, KindFilter
from tests.messages import parse
from tests.promises.scene import NAME, create, event
from tests.sealing import seal, sealing_hub


@pytest.fixture
def hub(sqlite_url: str, tmp_path: Path) -> Iterator[Hub]:
    with sealing_hub(sqlite_url, (tmp_path / "cold").as_uri(), file_bytes=10) as hub:
        create(hub, partitions=2)
        yield hub


def steps(hub: Hub, cursors: Mapping[int, str], kinds: KindFilter | None = None) -> list[MessageStep]:
    """Return the steps of a stream from *cursors* to the end of the log."""
    found: list[MessageStep] = []
    while not found or not found[-1].is_caught_up:
        wanted = [WantedPartition("cursor", *each) for each in (found[-1].cursors if found else cursors).items()]
        reading = hub.log.reader.open(NAME, len(cursors), wanted, 1_000, kinds)
        first = found[-1].next_track if found else 0
        found.append(MessageWriter(NAME, is_unnamed=False, has_details=False).write(hub.log.reader, reading, first))
    return found


def read(hub: Hub, cursors: Mapping[int, str], kinds: KindFilter | None = None) -> dict[int, str]:
    """Return the number of each event after *cursors*, and the id of its message."""
    messages = parse(b"".join(each.body for each in steps(hub, cursors, kinds)).decode())
    found = {each.number: each.id for each in messages}
    assert len(found) == len(messages)
    return found


def test_sealed_and_erased_events_leave_no_gap_in_what_an_id_resumes(hub: Hub) -> None:
    keys = ["jane" if number % 5 == 0 else "other" for number in range(20)]
    events = [event({"id": number}, number % 2, key=key) for number, key in enumerate(keys)]
    for each in events[:10]:
        hub.log.publish(NAME, [each])
    seal(hub)
    hub.log.publish(NAME, events[10:])
    begin = {0: "_first", 1: "_first"}
    assert read(hub, begin).keys() == set(range(20))
    hub.erasures.request(NAME, "jane")
    hub.erasures.run()
    found = read(hub, begin)
    assert found.keys() == {number for number in range(20) if number % 5}
    order = list(found)
    merged = read(hub, {0: "_first"})
    for number, position in merged.items():
        at = list(merged).index(number)
        assert list(read(hub, {0: position})) == list(merged)[at + 1 :]
    assert [each for each in order if each % 2] == [each for each in range(1, 20, 2) if each % 5]


def test_step_ends_soon_after_its_limit_and_the_next_one_begins_with_another_partition(hub: Hub) -> None:
    text = "x" * 100_000
    for partition in (0, 1):
        hub.log.publish(NAME, [event({"id": number, "text": text}, partition) for number in range(60)])
    found = steps(hub, {0: "_first", 1: "_first"})
    assert len(found) > 2
    assert max(len(each.body) for each in found) < STEP_BYTES + 2 * CHUNK_BYTES + 1_000_000
    assert [each.next_track for each in found[:2]] == [1, 0]
    assert sum(each.events for each in found) == 120


def test_position_is_past_the_events_that_a_filter_leaves_out(hub: Hub) -> None:
    hub.log.publish(NAME, [event({"id": 1}), event({"id": 2}, headers={"ce_type": "kept"}), event({"id": 3})])
    (step,) = steps(hub, {0: "_first"}, KindFilter(frozenset({"kept"}), False, NAME))
    assert (step.events, step.said, step.position) == (1, "1-f4ec22d8-1-2-1-0-2_0", "1-f4ec22d8-1-2-1-0-3_0")
