"""Groups whose positions are kept elsewhere and reported."""

from penstock.core.groups.groups import PositionCommit
from penstock.hub.groups.groups import REPORTED_SECONDS
from penstock.hub.hub import Hub
from penstock.storage.groups import GroupFilter
from penstock.testing.clock import VirtualClock
from tests.unit.hub.feeds import NAME, fill_feed

KEPT_AT = "postgresql://db/shop, table positions"


def test_group_that_does_not_report_any_more_expires_and_no_other_does(hub: Hub, clock: VirtualClock) -> None:
    fill_feed(hub.store, partition_count=1, events=9)
    commits = [PositionCommit(NAME, 0, 3)]
    for name, kind in (("gone", "reported"), ("there", "reported"), ("mine", "processor")):
        hub.groups.commit(name, kind, commits, kept_at=KEPT_AT if kind == "reported" else None)
    clock.advance(seconds=REPORTED_SECONDS - 10)
    hub.groups.commit("there", None, commits)
    hub.groups.expire_reported()
    assert len(hub.groups.list(GroupFilter(), 9)) == 3
    clock.advance(seconds=20)
    hub.groups.expire_reported()
    assert [each.name for each in hub.groups.list(GroupFilter(), 9)] == ["mine", "there"]
