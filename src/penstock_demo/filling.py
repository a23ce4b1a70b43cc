"""Publishes what the feeds do not hold yet, with a progress bar."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.cli.failures import CommandFailure
from penstock.cli.output import progress
from penstock.client import Client, Replay, Replayed
from penstock.errors import EventTypeExists
from penstock_demo.dataset import Series

GROUP: Final = "penstock-demo"


def stored_counts(client: Client, series: Sequence[Series]) -> dict[str, int]:
    """Return how many events each one's feed has been given.

    Raises:
        CommandFailure: a feed holds more than there is, so it is not this demo's.
    """
    counts = {}
    for each in series:
        counts[each.event_type] = stored_count(client, each.event_type)
        if counts[each.event_type] > each.count:
            detail = f"the feed {each.event_type} holds {counts[each.event_type]} events, there are only {each.count}"
            raise CommandFailure(
                detail, "It is from another run: remove the directory, or name another with --directory."
            )
    return counts


def create_missing(client: Client, event_type: str, definition: Mapping[str, Any]) -> None:
    """Create an event type unless it is there; one that is there gets the `authorization` of *definition*, if any."""
    try:
        client.create_event_type(event_type, more=definition)
    except EventTypeExists:
        there, rights = client.event_type(event_type), definition.get("authorization")
        if rights is not None and there.get("authorization") != rights:
            client.replace_event_type(there | {"authorization": rights})


def stored_count(client: Client, event_type: str) -> int:
    """Return how many events the feed of *event_type* has been given."""
    return sum(part.head for part in client.partitions(event_type))


def publish_missing(client: Client, series: Sequence[Series], stored: dict[str, int]) -> int:
    """Publish the events that are not in their feeds yet, in their order; return how many those were.

    Each series is published under a producer group: the hub knows which of its events it has, even if a run was killed.
    """
    total = sum(each.count for each in series)
    done, new = 0, 0
    with progress() as display:
        task = display.add_task(f"{'publishing':<16}", total=total, events=0)

        def moving(name: str, before: int, new_before: int) -> Callable[[Replayed], object]:
            return lambda so_far: display.update(
                task,
                description=f"{name:<16}",
                completed=before + so_far.count,
                events=new_before + so_far.count - so_far.skipped,
            )

        for each in series:
            if stored[each.event_type] < each.count:
                note = moving(each.event_type, done, new)
                replayed = Replay(client, each.event_type, GROUP, progress=note).publish(each.events())
                new += replayed.count - replayed.skipped
            done += each.count
    return new
