"""The cursor of a hub in the outbox, on a model of the ids and the visibility of transactions in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.storage.postgres.log.outbox import OutboxLooks, OutboxSnapshot, PendingLook
from tests.exhaustive import examples

NAMES = ("a", "b")
SINCE_EVER = OutboxSnapshot("0", [])


class Row(NamedTuple):
    """A row version, which stays in the index when it is dead."""

    id: int
    name: str
    inserted_by: int


class Database:
    """Transactions and their rows: who is running, who has committed, what a look can see."""

    def __init__(self) -> None:
        self.next_xid = 1_000
        self.last_ended = 999
        self.running: set[int] = set()
        self.committed: set[int] = set()
        self.rows: list[Row] = []
        self.deleted_by: dict[int, int] = {}

    def begin(self) -> int:
        xid, self.next_xid = self.next_xid, self.next_xid + 1
        self.running.add(xid)
        return xid

    def insert(self, xid: int, name: str) -> None:
        self.rows.append(Row(len(self.rows), name, xid))

    def end(self, xid: int, *, commit: bool) -> None:
        self.running.remove(xid)
        self.last_ended = max(self.last_ended, xid)
        if commit:
            self.committed.add(xid)

    def crash(self, lost_numbers: int) -> None:
        """Lose what was running; the last numbers that no commit has brought to disk are given again."""
        self.running.clear()
        last_on_disk = max(self.committed, default=999)
        self.next_xid = max(last_on_disk + 1, self.next_xid - lost_numbers)
        self.last_ended = self.next_xid - 1
        self.rows = [row for row in self.rows if row.inserted_by < self.next_xid]
        self.deleted_by = {row_id: xid for row_id, xid in self.deleted_by.items() if xid < self.next_xid}

    def snapshot(self) -> OutboxSnapshot:
        xmax = self.last_ended + 1
        return OutboxSnapshot(str(xmax), [str(xid) for xid in sorted(self.running) if xid < xmax])

    @property
    def live(self) -> list[Row]:
        """The rows that are committed and that no committed transaction has taken."""
        return [
            row
            for row in self.rows
            if row.inserted_by in self.committed and self.deleted_by.get(row.id) not in self.committed
        ]

    def scanned(self, since: OutboxSnapshot) -> list[Row]:
        """The row versions, dead ones too, that a look has to go through for what *since* could not see."""
        return [row for row in self.rows if not sees(since, row)]


def sees(snapshot: OutboxSnapshot, row: Row) -> bool:
    return row.inserted_by < int(snapshot.xmax) and str(row.inserted_by) not in snapshot.running


class Take(NamedTuple):
    """A transaction of a hub that has taken rows, and its report after the commit."""

    name: str
    xid: int
    tells: tuple[OutboxSnapshot, tuple[int, int]] | None


class Hub:
    """One process: it looks and takes as `PostgresOutbox` does."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.looks = OutboxLooks()
        self.taking: Take | None = None
        self.untold: list[Take] = []
        self.cut_off = False
        self.asked: tuple[PendingLook, OutboxSnapshot, list[str]] | None = None

    def look(self) -> list[str]:
        waiting = None
        while waiting is None:
            waiting = self.looks.finish(*self._look())
        return sorted(waiting)

    def begin_look(self) -> None:
        """Look while others may."""
        self.asked = self._look()

    def end_look(self) -> list[str]:
        assert self.asked
        waiting, self.asked = self.looks.finish(*self.asked), None
        return self.look() if waiting is None else sorted(waiting)

    def _look(self) -> tuple[PendingLook, OutboxSnapshot, list[str]]:
        begun = self.looks.begin()
        fresh = set(self.database.scanned(begun.since))
        return begun, self.database.snapshot(), sorted({row.name for row in self.database.live if row in fresh})

    def take(self, name: str, limit: int) -> list[Row]:
        moment = self.looks.moment
        rows = self.findable(name)
        snapshot, xid = self.database.snapshot(), self.database.begin()
        self.database.deleted_by |= {row.id: xid for row in rows[:limit]}
        self.taking = Take(name, xid, (snapshot, moment) if len(rows) <= limit else None)
        return rows[:limit]

    def findable(self, name: str) -> list[Row]:
        """The rows that a take finds."""
        fresh = set(self.database.scanned(self.looks.drained.get(name, SINCE_EVER)))
        return [row for row in self.database.live if row.name == name and row in fresh]

    def end_take(self, *, commit: bool) -> None:
        assert self.taking
        self.database.end(self.taking.xid, commit=commit)
        if commit:
            self.untold.append(self.taking)
        self.taking = None

    def tell(self, at: int = 0) -> None:
        take = self.untold.pop(at)
        if take.tells:
            self.looks.drain(take.name, *take.tells)

    def move(self, name: str) -> int:
        """Take all there is and return in how many transactions."""
        count = 0
        while True:
            count += 1
            rows = self.take(name, 3)
            self.end_take(commit=True)
            self.tell(-1)
            if len(rows) < 3:
                return count


names = st.sampled_from(NAMES)
hubs = st.integers(0, 1)


class LooksMachine(RuleBasedStateMachine):
    """Two hubs and their services, in any order, with crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.database = Database()
        self.hubs = [Hub(self.database), Hub(self.database)]
        self.services: list[int] = []
        self.seen_by: dict[int, set[str]] = {}
        """What waited when a hub began its look."""

    @rule(name=names)
    def a_service_inserts_and_commits(self, name: str) -> None:
        xid = self.database.begin()
        self.database.insert(xid, name)
        self.database.end(xid, commit=True)

    @rule(name=names)
    def a_service_inserts_and_stays_open(self, name: str) -> None:
        self.services.append(self.database.begin())
        self.database.insert(self.services[-1], name)

    @precondition(lambda self: self.services)
    @rule(at=st.data(), name=names)
    def an_open_service_inserts_more(self, at: Any, name: str) -> None:
        self.database.insert(at.draw(st.sampled_from(self.services)), name)

    @precondition(lambda self: self.services)
    @rule(at=st.data(), commit=st.booleans())
    def an_open_service_ends(self, at: Any, commit: bool) -> None:
        xid = at.draw(st.sampled_from(self.services))
        self.services.remove(xid)
        self.database.end(xid, commit=commit)

    @rule(hub=hubs)
    def a_hub_looks(self, hub: int) -> None:
        if not self.hubs[hub].cut_off:
            assert {row.name for row in self.database.live} <= set(self.hubs[hub].look())

    @rule(hub=hubs)
    def a_hub_begins_a_look(self, hub: int) -> None:
        if not self.hubs[hub].cut_off:
            self.hubs[hub].begin_look()
            self.seen_by[hub] = {row.name for row in self.database.live}

    @rule(hub=hubs)
    def a_look_ends(self, hub: int) -> None:
        """What waited when it was begun is found, unless it was moved meanwhile."""
        if self.hubs[hub].asked and not self.hubs[hub].cut_off:
            still = {row.name for row in self.database.live} & self.seen_by[hub]
            assert still <= set(self.hubs[hub].end_look())

    @rule(hub=hubs, name=names, limit=st.integers(1, 3))
    def a_hub_takes(self, hub: int, name: str, limit: int) -> None:
        hub_ = self.hubs[hub]
        locked = {each.taking.name for each in self.hubs if each.taking}
        if not (hub_.cut_off or hub_.taking or name in locked):
            taken = hub_.take(name, limit)
            assert taken == [row for row in self.database.live if row.name == name][:limit]

    @rule(hub=hubs, commit=st.booleans())
    def a_take_ends(self, hub: int, commit: bool) -> None:
        if self.hubs[hub].taking:
            self.hubs[hub].end_take(commit=commit)

    @rule(hub=hubs, at=st.data())
    def a_take_is_told(self, hub: int, at: Any) -> None:
        """Threads may be held up between their commit and the telling, and overtake each other."""
        if self.hubs[hub].untold:
            self.hubs[hub].tell(at.draw(st.integers(0, len(self.hubs[hub].untold) - 1)))

    @rule(lost_numbers=st.integers(0, 9))
    def the_database_crashes(self, lost_numbers: int) -> None:
        self.database.crash(lost_numbers)
        self.services.clear()
        for hub in self.hubs:
            hub.taking, hub.asked, hub.cut_off = None, None, True

    @rule(hub=hubs)
    def a_hub_finds_its_connection_cut(self, hub: int) -> None:
        if self.hubs[hub].cut_off:
            self.hubs[hub].looks.forget()
            self.hubs[hub].cut_off = False

    @rule(hub=hubs)
    def a_hub_comes_to_rest(self, hub: int) -> None:
        """Once all is moved, a look goes through nothing but what open transactions have inserted."""
        hub_ = self.hubs[hub]
        if hub_.cut_off or any(each.taking for each in self.hubs):
            return
        while hub_.untold:
            hub_.tell()
        for name in hub_.look():
            hub_.move(name)

        assert hub_.look() == []
        assert self.database.live == []
        for since in (hub_.looks.seen, hub_.looks.oldest()):
            assert {row.inserted_by for row in self.database.scanned(since)} <= set(self.services)

    @invariant()
    def every_row_can_be_taken(self) -> None:
        for hub in self.hubs:
            for name in NAMES if not hub.cut_off else ():
                assert hub.findable(name) == [row for row in self.database.live if row.name == name]

    @invariant()
    def every_row_is_counted(self) -> None:
        for hub in self.hubs:
            if not hub.cut_off:
                behind = hub.looks.oldest()
                assert not [row for row in self.database.live if sees(behind, row)]

    @invariant()
    def what_does_not_wait_has_nothing_that_the_last_look_could_see(self) -> None:
        for hub in self.hubs:
            waiting = hub.looks.find_waiting()
            if not hub.cut_off:
                assert not [row for row in self.database.live if row.name not in waiting and sees(hub.looks.seen, row)]


TestLooks = LooksMachine.TestCase
TestLooks.settings = settings(max_examples=examples(20, 500), stateful_step_count=40, deadline=None)


def test_rows_moved_by_others_between_two_looks_are_not_scanned_later() -> None:
    database = Database()
    hub, quicker = Hub(database), Hub(database)

    def commit() -> None:
        xid = database.begin()
        database.insert(xid, "a")
        database.end(xid, commit=True)

    for _ in range(50):
        commit()
        quicker.move("a")
        assert hub.look() == []
    commit()
    assert hub.look() == ["a"]

    assert len(hub.findable("a")) == len(database.scanned(hub.looks.drained["a"])) == 1


def test_transaction_number_that_goes_back_means_a_crashed_database() -> None:
    """Even where nobody was told: a pool in between may have connected anew by itself."""
    looks = OutboxLooks()
    finish(looks, "100", ["a"], running=["90"])
    looks.drain("a", OutboxSnapshot("101", []), looks.moment)

    assert finish(looks, "100") == finish(looks, "101") == set()
    assert finish(looks, "99") is None
    assert (looks.seen, looks.drained) == (SINCE_EVER, {})


def test_transaction_numbers_are_compared_as_numbers() -> None:
    looks = OutboxLooks()
    finish(looks, "99")

    assert finish(looks, "100") == set()


def test_look_that_another_has_overtaken_tells_what_it_found_and_is_not_what_the_next_one_skips() -> None:
    looks = OutboxLooks()
    begun = looks.begin()
    finish(looks, "100", ["a"])

    assert looks.finish(begun, OutboxSnapshot("99", []), ["b"]) == {"a", "b"}
    assert looks.seen == OutboxSnapshot("100", [])
    assert looks.find_waiting() == ["a"]


def test_overtaken_look_at_a_crashed_database_is_void() -> None:
    looks = OutboxLooks()
    finish(looks, "100")
    begun = looks.begin()
    finish(looks, "110")

    assert looks.finish(begun, OutboxSnapshot("50", []), []) is None
    assert looks.seen == SINCE_EVER


def test_take_that_began_before_a_crash_is_ignored() -> None:
    looks = OutboxLooks()
    moment = looks.moment
    looks.forget()

    looks.drain("a", OutboxSnapshot("100", []), moment)

    assert looks.drained == {}


def test_rows_found_before_a_crash_still_wait_after_it() -> None:
    looks = OutboxLooks()
    finish(looks, "100", ["a"])

    looks.forget()

    assert looks.find_waiting() == ["a"]


def finish(looks: OutboxLooks, xmax: str, names: Sequence[str] = (), running: Sequence[str] = ()) -> set[str] | None:
    """Look and find rows of *names*, while no other looks."""
    return looks.finish(looks.begin(), OutboxSnapshot(xmax, list(running)), names)
