from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import done, done_to
from penstock.processing.stream_event import StreamEvent
from penstock.processing.tally import Tally
from tests.unit.processing.engine.items import engine


def event(stream: str, index: int, received: int | None) -> StreamEvent:
    return StreamEvent(stream, index, "event", b"{}", received=received)


def test_pages_events_and_commits_are_counted() -> None:
    tally = Tally()
    tally.read(Batch("t", 1, [event("A", 0, 5), event("B", 1, 6)]))
    tally.read(Batch("t", 2, []))
    for _ in range(2):
        tally.commit_failed("it is away")

    assert (tally.pages["t"], tally.events["t"], tally.commits_failing) == (2, 2, 2)
    tally.committed()
    assert (dict(tally.commits), tally.commits_failing) == ({"ok": 1, "failed": 2}, 0)


def test_the_oldest_event_is_that_of_the_oldest_page_which_is_not_done() -> None:
    ours, tally = engine(), Tally()
    for number, received in enumerate((100, None, 300)):
        page = Batch("t", number, [event(f"S{number}", number, received)])
        ours.ingest(page, 0.0)
        tally.read(page)
    oldest = [tally.oldest(ours.tranche("t"))]
    for call in ours.take(3, 0.0):
        ours.settle(call, done(), 0.0, 0.0)
        oldest.append(tally.oldest(ours.tranche("t")))

    assert oldest == [100, 300, 300, None]


def test_what_pages_held_is_completed_when_they_are() -> None:
    ours, tally = engine(), Tally()
    for number in range(2):
        page = Batch("t", number, [event("A", number, None)], size=3, bytes=100)
        ours.ingest(page, 0.0)
        tally.read(page, took=0.5)
        tally.follow(ours.tranche("t"))
    assert (tally.events["t"], tally.bytes["t"], tally.completed["t"]) == (6, 200, 0)
    assert tally.ingests.histogram().sum == 1.0

    [call] = ours.take(1, 0.0)
    ours.settle(call, done_to(1), 0.0, 0.0)
    tally.follow(ours.tranche("t"))
    assert tally.completed["t"] == 3


def test_of_a_tranche_that_was_let_go_of_nothing_is_completed_by_that() -> None:
    ours, tally = engine(), Tally()
    page = Batch("t", 1, [event("A", 0, 100)])
    ours.ingest(page, 0.0)
    tally.read(page)
    assert tally.oldest(ours.tranche("t")) == 100
    ours.forget("t")
    ours.open("t", 0)

    assert tally.oldest(ours.tranche("t")) is None
    ours.ingest(page, 0.0)
    tally.read(page)
    assert tally.oldest(ours.tranche("t")) == 100
    [call] = ours.take(1, 0.0)
    ours.settle(call, done(), 0.0, 0.0)
    tally.follow(ours.tranche("t"))
    assert (tally.events["t"], tally.completed["t"]) == (2, 1)


def test_a_source_that_does_not_say_how_much_it_read_has_no_figure_of_it() -> None:
    tally = Tally()
    tally.read(Batch("t", 1, [event("A", 0, None)]))

    assert tally.bytes.get("t") is None


def test_a_round_is_timed_while_it_goes_on_and_when_it_has_ended() -> None:
    tally = Tally()
    assert tally.rounds is None
    tally.begin_round(3.0)
    assert tally.round_began == 3.0
    tally.end_round(5.0)

    assert tally.round_began is None
    assert tally.rounds is not None
    assert (tally.rounds.histogram().count, tally.rounds.histogram().sum) == (1, 2.0)
