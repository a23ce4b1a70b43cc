"""Compaction keeps the newest event of each key, and a deletion for a while; nothing else is removed."""

from collections.abc import Sequence

import pytest

from penstock.hub.hub import Hub
from penstock.hub.log import compaction
from penstock.hub.log.compaction import DELAY, DELETIONS_KEPT, LAG_MAX, Compactor
from penstock.storage.log.removal import RemovalRepository
from penstock.storage.store import Store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_new_event
from tests.promises.scene import seeded
from tests.unit.hub.feeds import NAME, create_feed, find_feed

LATER = DELAY + 1


@pytest.fixture
def compactor(hub: Hub, clock: VirtualClock) -> Compactor:
    create_feed(
        hub.store,
        partition_count=2,
        category="business",
        enrichment_strategies=["metadata_enrichment"],
        cleanup_policy="compact",
    )
    return Compactor(hub.store, clock)


def publish(hub: Hub, keys: str, partition: int = 0, *, deletes: bool = False) -> None:
    """Publish one event a letter, which is its key; or delete these keys."""
    metadata = {"partition": str(partition)}
    events = [
        a_new_event(a_business_event(n, metadata=metadata | {"partition_compaction_key": key}), partition=partition)
        for n, key in enumerate(keys)
    ]
    if deletes:
        hub.log.submit(NAME, events, deletes=True).result()
    else:
        hub.log.publish(NAME, events)


def left(store: Store, partition: int = 0) -> str:
    """Return the keys of the events that are there; a deletion is a capital."""
    partition_id = find_feed(store).partition_ids[partition]
    with store.read() as tx:
        found = tx.removal.list_keys(partition_id, 0, 9_999, 9_999)
    return "".join((each.key or "-").upper() if each.is_deletion else each.key or "-" for each in found)


def test_newest_event_of_each_key_is_kept(hub: Hub, clock: VirtualClock, compactor: Compactor) -> None:
    publish(hub, "abacabad")
    publish(hub, "ab", 1)
    clock.advance(seconds=LATER)

    compactor.run()

    assert (left(hub.store), left(hub.store, 1)) == ("cbad", "ab")
    assert compactor.removed == 4
    [first, _] = find_feed(hub.store).partition_ids
    with hub.store.read() as tx:
        assert tx.removal.list_holes(first, 0, 99) == [(0, 3), (4, 5)]
        assert tx.log.find_heads([first])[first].next_offset == 8


def test_young_events_are_left_alone_and_newer_ones_among_them_replace_nothing(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    publish(hub, "aba")
    clock.advance(seconds=LATER)
    publish(hub, "bb")

    compactor.run()

    assert left(hub.store) == "babb"


def test_deletion_removes_earlier_events_of_its_key_and_goes_after_a_while(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    publish(hub, "abab")
    publish(hub, "a", deletes=True)
    publish(hub, "c")
    clock.advance(seconds=LATER)
    compactor.run()
    assert left(hub.store) == "bAc"

    clock.advance(seconds=DELETIONS_KEPT + LAG_MAX - LATER - 1)
    compactor.run()
    assert left(hub.store) == "bAc"
    clock.advance(seconds=2)
    compactor.run()

    assert left(hub.store) == "bc"


def test_last_event_of_a_partition_stays_even_if_it_is_an_old_deletion(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    publish(hub, "ab")
    publish(hub, "a", deletes=True)
    clock.advance(seconds=DELETIONS_KEPT + LAG_MAX + LATER)

    compactor.run()

    assert left(hub.store) == "bA"


def test_events_from_before_their_event_type_was_compacted_stay(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    create_feed(hub.store, "late", category="business", enrichment_strategies=["metadata_enrichment"])
    hub.log.publish("late", [a_new_event(a_business_event(n), key="a", partition=0) for n in range(3)])
    with hub.store.write() as tx:
        feed = tx.registry.find("late", lock=True)
        assert feed is not None
        changed = feed.event_type.definition | {"cleanup_policy": "compact_and_delete"}
        tx.registry.update(feed, type(feed.event_type).of(changed, 1), 0)
    hub.registry.load("late")
    metadata = {"partition_compaction_key": "a"}
    hub.log.publish("late", [a_new_event(a_business_event(n, metadata=metadata), partition=0) for n in range(3)])
    clock.advance(seconds=LATER)

    compactor.run()

    with hub.store.read() as tx:
        found = tx.removal.list_keys(tx.registry.get("late").partition_ids[0], 0, 99, 99)
    assert [each.offset for each in found] == [0, 1, 2, 5]


def test_event_after_a_deletion_replaces_it(hub: Hub, clock: VirtualClock, compactor: Compactor) -> None:
    publish(hub, "a")
    publish(hub, "a", deletes=True)
    publish(hub, "a")
    clock.advance(seconds=LATER)

    compactor.run()

    assert left(hub.store) == "a"


def test_partition_is_compacted_again_once_it_has_doubled_or_its_new_events_are_old(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    publish(hub, "abcd")
    clock.advance(seconds=LATER)
    compactor.run()

    found = []
    for keys, seconds in (("abc", LATER), ("d", LATER), ("a", LATER), ("", LAG_MAX)):
        publish(hub, keys) if keys else None
        clock.advance(seconds=seconds)
        compactor.run()
        found.append(left(hub.store))

    assert found == ["abcdabc", "abcd", "abcda", "bcda"]


def test_other_event_types_and_events_without_a_key_are_left_alone(
    hub: Hub, clock: VirtualClock, compactor: Compactor
) -> None:
    create_feed(hub.store, "other")
    hub.log.publish("other", [a_new_event({"n": n}, key="a", partition=0) for n in range(3)])
    clock.advance(seconds=LATER)

    compactor.run()

    assert compactor.removed == 0


@pytest.mark.parametrize("sizes", [(3, 2), (2, 3), (1, 1), (200, 7)])
def test_bounded_passes_end_in_the_same_state(
    hub: Hub, clock: VirtualClock, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]
) -> None:
    for name, size in zip(("KEYS_MAX", "STEP_EVENTS"), sizes, strict=True):
        monkeypatch.setattr(compaction, name, size)
    monkeypatch.setattr(compaction, "REMOVED_EVENTS", (sizes[1], sizes[1]))
    compactor = Compactor(hub.store, clock)
    chance = seeded()
    letters = [chance.choice("abcdefg") for _ in range(60)]
    publish(hub, "".join(letters))
    clock.advance(seconds=LATER)

    for _ in range(70):
        clock.advance(seconds=LAG_MAX)
        compactor.run()

    assert left(hub.store) == _newest(letters)


def _newest(letters: Sequence[str]) -> str:
    return "".join(each for at, each in enumerate(letters) if each not in letters[at + 1 :])


def test_round_ends_when_it_is_to_stop_and_the_next_one_completes_it(
    hub: Hub, clock: VirtualClock, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "STEP_EVENTS", 2)
    monkeypatch.setattr(compaction, "REMOVED_EVENTS", (2, 2))
    compactor = Compactor(hub.store, clock)
    publish(hub, "abababababab")
    clock.advance(seconds=LATER)
    pauses = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 9

    compactor.run(pause)
    half = left(hub.store)
    compactor.run()

    assert "ab" < half != "ab"
    assert left(hub.store) == "ab"


def test_another_hub_goes_on_where_a_pass_has_ended_and_not_where_one_was_interrupted(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, compactor: Compactor
) -> None:
    monkeypatch.setattr(compaction, "KEYS_MAX", 3)
    monkeypatch.setattr(compaction, "REMOVED_EVENTS", (1, 1))
    publish(hub, "abcabcdef")
    clock.advance(seconds=LAG_MAX + LATER)
    partition_id = find_feed(hub.store).partition_ids[0]

    def find_stop() -> int:
        with hub.store.read() as tx:
            return tx.removal.find_compaction(partition_id).progress.stop

    stops = [find_stop()]
    for _ in range(3):
        Compactor(hub.store, clock).run()
        stops.append(find_stop())
    publish(hub, "dd")
    clock.advance(seconds=LAG_MAX + LATER)
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return left(hub.store) == "abcefdd"

    Compactor(hub.store, clock).run(pause)
    stops.append(find_stop())
    interrupted, half = len(pauses), left(hub.store)
    Compactor(hub.store, clock).run()
    stops.append(find_stop())

    assert stops == [0, 3, 6, 9, 9, 11]
    assert (interrupted > 0, half, left(hub.store)) == (True, "abcefdd", "abcefd")


def test_restarted_hub_reads_no_partition_that_is_compacted_already(
    hub: Hub, clock: VirtualClock, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, "abab")
    publish(hub, "b", deletes=True)
    clock.advance(seconds=LATER)
    compactor.run()
    with monkeypatch.context() as patched:
        patched.setattr(RemovalRepository, "list_keys", lambda *given: pytest.fail(f"read {given}"))
        Compactor(hub.store, clock).run()
    publish(hub, "c")
    clock.advance(seconds=DELETIONS_KEPT + LAG_MAX + LATER)

    Compactor(hub.store, clock).run()

    assert left(hub.store) == "ac"


def test_old_deletion_that_is_the_last_event_is_not_looked_at_in_each_round(
    hub: Hub, clock: VirtualClock, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, "ab")
    publish(hub, "a", deletes=True)
    clock.advance(seconds=DELETIONS_KEPT + LAG_MAX + LATER)
    compactor.run()
    with monkeypatch.context() as patched:
        patched.setattr(RemovalRepository, "list_keys", lambda *given: pytest.fail(f"read {given}"))
        compactor.run()
    publish(hub, "c")
    clock.advance(seconds=LAG_MAX + LATER)

    compactor.run()

    assert left(hub.store) == "bc"


def test_compacted_feed_shows_the_newest_events_alone(hub: Hub, clock: VirtualClock, compactor: Compactor) -> None:
    publish(hub, "abac")
    publish(hub, "b", deletes=True)
    clock.advance(seconds=LATER)
    compactor.run()

    publish(hub, "d")

    assert left(hub.store) == "acBd"
