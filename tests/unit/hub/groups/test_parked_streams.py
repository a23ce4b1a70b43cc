"""Parked streams of groups that are moved."""

from penstock.core.groups.groups import GroupReset, PositionCommit, ResetTarget
from penstock.core.groups.parking import ParkedChanges, ParkedStream
from penstock.hub.hub import Hub
from tests.unit.hub.feeds import NAME, fill_feed, find_feed, raise_epochs


def test_parked_stream_of_another_epoch_waits_from_where_its_group_is_moved(hub: Hub) -> None:
    fill_feed(hub.store, partition_count=1, events=9)
    epoch = find_feed(hub.store).epoch
    stream = ParkedStream(NAME, 0, "a", 7, 8, 1, 3, "ValueError", "no", f"{epoch}:3")
    hub.groups.commit("mailer", "processor", [PositionCommit(NAME, 0, 9)], parked=ParkedChanges([stream]))
    raise_epochs(hub.store)

    hub.groups.reset("mailer", [GroupReset(ResetTarget(offset=2), NAME, 0)], "restored", dry_run=False)

    [found] = hub.groups.parked.list("mailer", after=0, limit=9)
    assert (found.parked.first, found.parked.since) == (0, f"{find_feed(hub.store).epoch}:2")
