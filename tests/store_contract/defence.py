"""The contract of what the database itself refuses to everybody."""

import pytest

from penstock.storage import Store
from penstock.storage.log.events import Frame
from tests.store_contract.database import Contract, Database, append, created, row

CHANGES = (
    "UPDATE penstock_event SET data = '{}'",
    'UPDATE penstock_event SET received_at = 0 WHERE "offset" = 1',
    "DELETE FROM penstock_event",
    'DELETE FROM penstock_event WHERE "offset" = 2',
)


class DefenceContract(Contract):
    """Events are neither changed nor removed, not even by an administrator's own hand."""

    changes: tuple[str, ...] = ()
    """What else the database's own SQL offers for it."""

    def test_database_refuses_to_change_events(self, store: Store, database: Database) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, b'{"n":%d}' % n) for n in range(3)))
        with store.read() as tx:
            before = tx.log.read_lines(partition_id, 0, 9, Frame("", "\n", ""), None)

        for change in (*CHANGES, *self.changes):
            with pytest.raises(Exception, match="penstock: events are "):
                database.run(change)

        with store.read() as tx:
            assert tx.log.read_lines(partition_id, 0, 9, Frame("", "\n", ""), None) == before

    def test_database_deletes_only_below_the_floor_and_an_emptied_partition_continues_there(
        self, store: Store, database: Database
    ) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(5)))
        for floor in (3, 5):
            database.run("UPDATE penstock_partition SET floor = ? WHERE id = ?", floor, partition_id)
            if floor < 5:
                with pytest.raises(Exception, match="removed by retention"):
                    database.run('DELETE FROM penstock_event WHERE "offset" = ?', floor)

            database.run('DELETE FROM penstock_event WHERE "offset" < ?', floor)

            with store.write() as tx:
                head = tx.log.find_heads([partition_id], lock=True)[partition_id]
                assert (head.floor, head.next_offset) == (floor, 5)
                assert tx.log.read_columns(partition_id, floor, 5).rows == 5 - floor
