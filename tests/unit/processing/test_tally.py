from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import done
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
        tally.commit_failed()

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
