"""Publishes what the feeds do not hold yet, with a progress bar."""

from collections.abc import Callable, Sequence

from penstock.cli.demo.dataset import Series
from penstock.cli.failures import Failure
from penstock.cli.output import progress
from penstock.client import Client, Published
from penstock.errors import EventTypeNotFound


def stored_counts(client: Client, series: Sequence[Series]) -> dict[str, int]:
    """Create the event types that are not there; return how many events each one's feed has been given.

    Raises:
        Failure: a feed holds more than there is, so it is not this demo's.
    """
    counts = {}
    for each in series:
        try:
            counts[each.event_type] = sum(part.head for part in client.partitions(each.event_type))
        except EventTypeNotFound:
            client.create_event_type(each.event_type, more=each.definition)
            counts[each.event_type] = 0
        if counts[each.event_type] > each.count:
            detail = f"the feed {each.event_type} holds {counts[each.event_type]} events, there are only {each.count}"
            raise Failure(detail, "It is from another run: remove the directory, or name another with --directory.")
    return counts


def publish_missing(client: Client, series: Sequence[Series], stored: dict[str, int]) -> int:
    """Publish the events that are not in their feeds yet, in their order; return how many those were.

    The events of a feed are published one batch after the other, each whole or not at all: so those that are there are
    the first ones, even if a run was killed.
    """
    total = sum(each.count for each in series)
    done, new = sum(stored.values()), 0
    with progress() as display:
        task = display.add_task(f"{'publishing':<16}", total=total, completed=done, events=0)

        def moving(name: str, before: int) -> Callable[[Published], object]:
            return lambda so_far: display.update(
                task, description=f"{name:<16}", completed=done + before + so_far.count, events=before + so_far.count
            )

        for each in series:
            events = each.events(stored[each.event_type])
            new += client.publish(each.event_type, events, progress=moving(each.event_type, new)).count
    return new
