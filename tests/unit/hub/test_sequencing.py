"""Numbered batches are decided about by what is stored, inside the transaction that appends them."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.event_type import Feed
from penstock.core.producer import Ending, Range, State
from penstock.errors import (
    PayloadMismatch,
    PenstockError,
    ProducerFenced,
    ProducerStateExpired,
    SequenceGap,
    SequenceOverlap,
    SequenceTooOld,
    TooManyProducers,
)
from penstock.hub import sequencing
from penstock.hub.append import Published
from penstock.hub.request import Told
from penstock.hub.sequencing import StaleError, judge, record
from penstock.hub.stamped import Produced
from penstock.storage import Store
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import NAME, a_feed, created, ready, stored
from tests.unit.hub.numbering import (
    UNFIT,
    change,
    expire,
    fill,
    forget_batches,
    known,
    lettered,
    numbered,
    plain,
    settle,
)

LOG = "xuvabcyde"
AT_5 = State(epoch=3, begin=0, next=5, last_offset=8, previous=Ending(2, 2, 2))
TRIMS = {"trims": True}
Given = tuple[int, int, str, dict[str, Any]]
"""Epoch, number, events; and others, as `numbered` takes them."""


@pytest.fixture
def feed(store: Store) -> Feed:
    """An event type whose first partition has a log, see `fill`."""
    feed = created(store, partition_count=2)
    fill(store, feed)
    return feed


def letters(store: Store, feed: Feed, partition: int = 0) -> str:
    return "".join(line[6] for line in stored(store, feed.partition_ids[partition]))


def produced(told: Told) -> Produced:
    assert isinstance(told, Published), told
    assert told.produced is not None
    return told.produced


def refused(told: Told) -> tuple[type[PenstockError], dict[str, Any]]:
    assert isinstance(told, PenstockError), told
    return type(told), told.fields


APPENDED: dict[str, tuple[Given, Produced, str]] = {
    "the next": ((3, 5, "f", {}), Produced("appended", 3, 5, 5, 6, [Range(9, 9)]), "f"),
    "the next ones": ((3, 5, "fgh", {}), Produced("appended", 3, 5, 7, 8, [Range(9, 11)]), "fgh"),
    "the next ones, to be trimmed": ((3, 5, "fgh", TRIMS), Produced("appended", 3, 5, 7, 8, [Range(9, 11)]), "fgh"),
    "the next epoch": ((4, 0, "ab", {}), Produced("appended", 4, 0, 1, 2, [Range(9, 10)]), "ab"),
    "another producer": ((0, 0, "ab", {"group": "h"}), Produced("appended", 0, 0, 1, 2, [Range(9, 10)]), "ab"),
    "one whose beginning is there": ((3, 3, "defg", TRIMS), Produced(
        "trimmed", 3, 3, 6, 7, [Range(7, 8), Range(9, 10)]), "fg"),
    "one whose beginning lies apart": ((3, 1, "bcdef", TRIMS), Produced(
        "trimmed", 3, 1, 5, 6, [Range(4, 5), Range(7, 8), Range(9, 9)]), "f"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told", "more"), APPENDED.values(), ids=APPENDED)
def test_what_is_new_is_appended_and_told_where(
    store: Store, feed: Feed, given: Given, told: Produced, more: str
) -> None:
    epoch, sequence, events, others = given

    [published] = settle(store, numbered(feed, epoch, sequence, events, **others), at=START_AT + 7)

    assert produced(published) == told
    assert isinstance(published, Published)
    assert (published.events, published.next_offsets) == (len(more), {0: len(LOG + more)})
    assert letters(store, feed) == LOG + more
    producer = known(store, feed, others.get("group", "g"))
    assert producer is not None
    assert (producer.state.epoch, producer.state.next, producer.updated_at) == (epoch, told.next, START_AT + 7)
    again = produced(settle(store, numbered(feed, epoch, sequence, events, **others))[0])
    assert (again.outcome, spread(again.ranges)) == ("duplicate", spread(told.ranges))


def spread(ranges: Sequence[Range]) -> list[int]:
    return [offset for each in ranges for offset in range(each.first, each.last + 1)]


REPEATED: dict[str, tuple[tuple[int, str], list[Range]]] = {
    "the last one": ((3, "de"), [Range(7, 8)]),
    "the first one": ((0, "abc"), [Range(3, 5)]),
    "an event of it": ((1, "b"), [Range(4, 4)]),
    "all": ((0, "abcde"), [Range(3, 5), Range(7, 8)]),
    "in other pieces": ((2, "cd"), [Range(5, 5), Range(7, 7)]),
}


@pytest.mark.parametrize(("given", "ranges"), REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("how", [{}, TRIMS, {"fits": False}], ids=["plain", "trimming", "unfit by now"])
def test_a_repeat_is_answered_with_the_same_offsets(
    store: Store, feed: Feed, given: tuple[int, str], ranges: list[Range], how: dict[str, Any]
) -> None:
    before = known(store, feed)
    sequence, events = given

    told = settle(store, numbered(feed, 3, sequence, events, **how), at=START_AT + 7)

    last = sequence + len(events) - 1
    assert told == [Published(feed, 0, {}, Produced("duplicate", 3, sequence, last, 5, ranges))]
    assert (letters(store, feed), known(store, feed)) == (LOG, before)


def offsets(*ranges: tuple[int, int]) -> list[dict[str, int]]:
    return [{"first": first, "last": last} for first, last in ranges]


NOTHING, ALL = {"committed": False, "ranges": []}, {"committed": True}
UNKNOWN = {"committed": None, "ranges": []}
REFUSED: dict[str, tuple[Given, type[PenstockError], dict[str, Any]]] = {
    "one too far": ((3, 6, "g", {}), SequenceGap, {"expected": 5} | NOTHING),
    "before the first": ((3, (1 << 53) - 1, "g", {}), SequenceGap, {"expected": 5} | NOTHING),
    "an epoch that does not begin with 0": ((4, 5, "f", {}), SequenceGap, {"expected": 0} | NOTHING),
    "a new producer that does not": ((0, 1, "b", {"group": "h"}), SequenceGap, {
        "expected": 0, "current_epoch": None, "next_sequence": None} | UNKNOWN),
    "one whose beginning is there": ((3, 3, "defg", {}), SequenceOverlap, {
        "committed": False, "ranges": offsets((7, 8))}),
    "all and more": ((3, 0, "abcdef", {}), SequenceOverlap, {"committed": False, "ranges": offsets((3, 5), (7, 8))}),
    "another one": ((3, 3, "d!", {}), PayloadMismatch, {"differs_at": 4} | NOTHING),
    "another one across two": ((3, 2, "!d", {}), PayloadMismatch, {"differs_at": 2} | NOTHING),
    "another beginning, to be trimmed": ((3, 4, "!f", TRIMS), PayloadMismatch, {"differs_at": 4} | NOTHING),
    "of the epoch before, stored": ((2, 0, "uv", {}), ProducerFenced, {"ranges": offsets((1, 2))} | ALL),
    "of the epoch before, an event of it": ((2, 1, "v", {}), ProducerFenced, {"ranges": offsets((2, 2))} | ALL),
    "of the epoch before, half of it": ((2, 1, "vw", {}), ProducerFenced, {
        "committed": False, "ranges": offsets((2, 2))}),
    "of the epoch before, half of it, to be trimmed": ((2, 1, "vw", TRIMS), ProducerFenced, {
        "committed": False, "ranges": offsets((2, 2))}),
    "of the epoch before, not stored": ((2, 2, "w", {}), ProducerFenced, NOTHING),
    "of the epoch before, another one": ((2, 0, "u!", {}), ProducerFenced, NOTHING),
    "of an epoch that is not known": ((1, 0, "u", {}), ProducerFenced, UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("fits", [True, False], ids=["fit", "unfit"])
def test_what_is_refused_leaves_all_as_it_was_and_is_told_what_is_stored(
    store: Store, feed: Feed, case: tuple[Given, type[PenstockError], dict[str, Any]], fits: bool
) -> None:
    (epoch, sequence, events, others), kind, fields = case
    before = known(store, feed)
    assert before is not None
    assert before.state == AT_5

    [told] = settle(store, numbered(feed, epoch, sequence, events, **others, fits=fits))

    who = {"producer_group": others.get("group", "g"), "partition": 0, "received": sequence}
    assert refused(told) == (kind, {"current_epoch": 3, "next_sequence": 5} | who | fields)
    assert (letters(store, feed), known(store, feed), known(store, feed, "h")) == (LOG, before, None)


def test_what_was_stored_under_a_number_may_not_be_known_any_more(store: Store, feed: Feed) -> None:
    forget_batches(store, feed, 3, 0)

    told = settle(store, numbered(feed, 3, 1, "bc")) + settle(store, numbered(feed, 3, 2, "cdef", trims=True))

    fields = {"current_epoch": 3, "next_sequence": 5, "producer_group": "g", "partition": 0} | UNKNOWN
    assert [refused(each) for each in told] == [
        (SequenceTooOld, fields | {"received": 1}),
        (SequenceTooOld, fields | {"received": 2}),
    ]
    assert letters(store, feed) == LOG


class TestExpired:
    @pytest.mark.parametrize(
        ("given", "committed"),
        [((3, 3, "de"), ALL | {"ranges": offsets((7, 8))}), ((3, 5, "f"), NOTHING), ((2, 2, "w"), NOTHING)],
        ids=["stored", "not stored", "of an epoch before"],
    )
    def test_of_one_that_has_expired_nothing_is_taken(
        self, store: Store, feed: Feed, given: tuple[int, int, str], committed: dict[str, Any]
    ) -> None:
        expire(store, feed)

        [told] = settle(store, numbered(feed, *given))

        who = {"producer_group": "g", "partition": 0, "received": given[1], "current_epoch": 3, "next_sequence": None}
        assert refused(told) == (ProducerStateExpired, who | committed)
        assert letters(store, feed) == LOG

    def test_when_its_batches_are_forgotten_nobody_knows(self, store: Store, feed: Feed) -> None:
        expire(store, feed)
        forget_batches(store, feed, 3, 0, 3)

        kind, fields = refused(settle(store, numbered(feed, 3, 3, "de"))[0])

        assert (kind, fields["committed"], fields["ranges"]) == (ProducerStateExpired, None, [])

    def test_with_a_higher_epoch_it_goes_on(self, store: Store, feed: Feed) -> None:
        expire(store, feed)

        gap, told = (settle(store, numbered(feed, 4, sequence, "f"))[0] for sequence in (1, 0))

        assert refused(gap)[1] | {"expected": 0, "current_epoch": 3, "next_sequence": None} == refused(gap)[1]
        assert produced(told) == Produced("appended", 4, 0, 0, 1, [Range(9, 9)])
        producer = known(store, feed)
        assert producer is not None
        assert producer.state == State(4, 0, 1, 9)


class TestRecorded:
    def test_a_new_one_is_recorded_with_what_it_has_appended(self, store: Store, feed: Feed) -> None:
        settle(store, numbered(feed, 7, 0, "ab", group="h", partition=1), at=START_AT + 7)

        producer = known(store, feed, "h", partition=1)
        assert producer is not None
        assert producer[1:] == (feed.partition_ids[1], "h", State(7, 0, 2, 1), None, False, START_AT + 7)
        assert known(store, feed, "h") is known(store, feed, "g", partition=1) is None

    def test_a_new_epoch_is_nobodys_claim_and_keeps_what_the_one_before_ended_with(
        self, store: Store, feed: Feed
    ) -> None:
        change(store, feed, claim_id="mine", is_pinned=True)

        settle(store, numbered(feed, 3, 5, "f"))
        assert (before := known(store, feed)) and (before.claim_id, before.is_pinned) == ("mine", True)
        settle(store, numbered(feed, 9, 0, "a"))

        after = known(store, feed)
        assert after is not None
        assert after.state == State(9, 0, 1, 10, previous=Ending(3, 6, 9))
        assert (after.id, after.claim_id, after.is_pinned) == (before.id, None, True)

    def test_an_epoch_that_was_claimed_from_a_number_goes_on_from_there(self, store: Store, feed: Feed) -> None:
        change(store, feed, state=AT_5.after(4, 100), claim_id="mine")

        before, told, again = (settle(store, numbered(feed, 4, number, "a"))[0] for number in (99, 100, 100))

        assert refused(before)[0] == SequenceGap
        assert produced(told) == Produced("appended", 4, 100, 100, 101, [Range(9, 9)])
        assert produced(again).outcome == "duplicate"
        assert (producer := known(store, feed)) and producer.claim_id == "mine"

    def test_numbers_go_round_within_a_batch(self, store: Store, feed: Feed) -> None:
        def send(sequence: int, events: str) -> Told:
            return settle(store, numbered(feed, 0, sequence, events, group="h"), modulus=8)[0]

        told = [send(*each) for each in [(0, "abc"), (3, "def"), (6, "ghi"), (6, "ghi"), (7, "hi")]]

        assert [produced(each) for each in told] == [
            Produced("appended", 0, 0, 2, 3, [Range(9, 11)]),
            Produced("appended", 0, 3, 5, 6, [Range(12, 14)]),
            Produced("appended", 0, 6, 0, 1, [Range(15, 17)]),
            Produced("duplicate", 0, 6, 0, 1, [Range(15, 17)]),
            Produced("duplicate", 0, 7, 0, 1, [Range(16, 17)]),
        ]
        for sequence, events, kind, said in [
            (0, "ijk", SequenceOverlap, {"next_sequence": 1, "ranges": offsets((17, 17))}),
            (7, "h!", PayloadMismatch, {"next_sequence": 1, "differs_at": 0}),
            (2, "k", SequenceGap, {"expected": 1}),
        ]:
            found, fields = refused(send(sequence, events))
            assert (found, fields | said) == (kind, fields)


class TestUnfit:
    def test_what_would_be_appended_is_told_what_keeps_it_out(self, store: Store, feed: Feed) -> None:
        new: list[Given] = [(3, 5, "f", {}), (4, 0, "f", {}), (0, 0, "f", {"group": "h"}), (3, 4, "ef", TRIMS)]

        for epoch, sequence, events, others in new:
            [told] = settle(store, numbered(feed, epoch, sequence, events, **others, fits=False))
            assert told is UNFIT

        producer = known(store, feed)
        assert producer is not None
        assert producer.state == AT_5
        assert (letters(store, feed), known(store, feed, "h")) == (LOG, None)
        assert produced(settle(store, numbered(feed, 3, 5, "f"))[0]).first == 5, "its number is not used up"


class TestTooMany:
    def test_a_new_one_is_refused_where_there_are_as_many_as_there_may_be(
        self, store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 1)

        [told] = settle(store, numbered(feed, 0, 0, "a", group="h"))
        assert refused(told) == (TooManyProducers, {"event_type": NAME, "partition": 0, "limit": 1})
        assert refused(settle(store, numbered(feed, 0, 1, "a", group="h"))[0])[0] == SequenceGap
        assert settle(store, numbered(feed, 0, 0, "a", group="h", fits=False)) == [UNFIT]
        assert (letters(store, feed), known(store, feed, "h")) == (LOG, None)

        assert produced(settle(store, numbered(feed, 0, 0, "a", group="h", partition=1))[0]).outcome == "appended"
        assert produced(settle(store, numbered(feed, 4, 0, "a"))[0]).outcome == "appended"
        expire(store, feed)
        assert produced(settle(store, numbered(feed, 0, 0, "a", group="h"))[0]).outcome == "appended"

    def test_those_that_begin_together_or_begin_anew_are_counted(
        self, store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sequencing, "PRODUCERS_MAX", 2)

        def begun(*groups: str) -> list[str]:
            told = settle(store, *[numbered(feed, 4, 0, "a", group=each) for each in groups])
            return [group for group, found in zip(groups, told, strict=True) if isinstance(found, Published)]

        assert begun("h", "i", "g") == ["h", "g"]
        expire(store, feed, "h")
        assert begun("i") == ["i"]
        [told] = settle(store, numbered(feed, 5, 0, "b", group="h"))
        assert refused(told)[0] == TooManyProducers


class TestTogether:
    def test_each_of_a_group_has_its_own_answer(self, store: Store, feed: Feed) -> None:
        requests = [
            numbered(feed, 3, 5, "fg"),
            plain(feed, "p"),
            numbered(feed, 0, 4, "!", group="h"),
            numbered(feed, 0, 0, "hi", group="i"),
            numbered(feed, 0, 0, "jk", group="g", partition=1),
            plain(feed, "q", partition=1),
        ]

        told = settle(store, *requests, moved=[ready(feed, *lettered("m"))])

        assert refused(told[2])[0] == SequenceGap
        assert [(each.events, each.next_offsets) for each in told if isinstance(each, Published)] == [
            (2, {0: 12}),
            (1, {0: 13}),
            (2, {0: 15}),
            (2, {1: 2}),
            (1, {1: 3}),
        ]
        assert [produced(told[n]).ranges for n in (0, 3, 4)] == [[Range(10, 11)], [Range(13, 14)], [Range(0, 1)]]
        assert (letters(store, feed), letters(store, feed, 1)) == (LOG + "mfgphi", "jkq")

    def test_where_none_is_numbered_no_producer_is_looked_for(self) -> None:
        nothing: Any = None
        request = plain(a_feed(), "p")

        [verdict] = judge(nothing, [request], [ready(a_feed(), *lettered("m"))])

        assert (verdict.appends, verdict.told, verdict.taking) == (request.ready, None, None)

    def test_producers_are_locked_sorted_after_the_event_types_of_all_that_goes_into_the_log(
        self, store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, third = (created(store, name, partition_count=2) for name in ("other", "third"))
        requests = [
            numbered(third, 0, 0, "a", fits=False),
            numbered(feed, 0, 0, "a", group="h", partition=1),
            plain(other, "p"),
            numbered(feed, 0, 0, "a", group="H", partition=1),
            numbered(feed, 0, 0, "a", group="z"),
        ]
        asked: list[Any] = []

        with store.write() as tx:
            lock = tx.producers.lock
            monkeypatch.setattr(tx.producers, "lock", lambda *given: (asked.extend(given), lock(*given))[1])
            judge(tx, requests, [ready(other, *lettered("m", 1))])

        (first, second), last = feed.partition_ids, third.partition_ids[0]
        assert asked == [
            [(first, "z"), (second, "H"), (second, "h"), (last, "g")],
            [first, second, *other.partition_ids, last],
        ]


class TestStale:
    def test_those_whose_partition_is_gone_are_named_and_nothing_is_written(self, store: Store, feed: Feed) -> None:
        other = created(store, "another")
        with store.write() as tx:
            tx.feeds.delete("another")
        gone, kept = numbered(other, 0, 0, "a"), numbered(feed, 3, 5, "f")

        with pytest.raises(StaleError) as told:
            settle(store, kept, gone, plain(feed, "p"))

        assert told.value.requests == [gone]
        assert letters(store, feed) == LOG

    def test_one_that_another_hub_has_inserted_meanwhile_is_named(
        self, store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new, kept = numbered(feed, 0, 0, "a", group="h"), numbered(feed, 3, 5, "f")

        with store.write() as tx:
            verdicts = judge(tx, [kept, new], [])
            monkeypatch.setattr(tx.producers, "insert", lambda *_given, **_others: None)
            results = [Published(feed, 1, {0: 10}), Published(feed, 1, {0: 11})]
            with pytest.raises(StaleError) as told:
                record(tx, verdicts, results, START_AT)

        assert told.value.requests == [new]
        assert (producer := known(store, feed)) and producer.state == AT_5
