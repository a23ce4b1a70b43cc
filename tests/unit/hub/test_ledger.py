"""The ledger of staged batches: each piece goes into the log in its turn."""

import json

from penstock.hub.append import Published
from penstock.hub.ledger import Turns, advance
from penstock.hub.publish import Prepared
from penstock.hub.staged import Piece
from penstock.storage import Store
from penstock.storage.staging import Batch, BatchKey, Chunk
from penstock.testing.clock import START_AT
from tests.unit.hub.feeds import a_feed, created

FEED = a_feed(2)
ROW = (None, None, None, b"{}")


def begun(store: Store) -> Batch:
    key = BatchKey(created(store).id, "g", 0, "q")
    with store.write() as tx:
        tx.staging.begin(key, [], 3, START_AT)
        batch = tx.staging.batch(*key[:3])
    assert batch is not None
    return batch


def piece(batch: Batch, chunks: int = 1) -> Piece:
    return Piece(batch, [Chunk(1, number, 1) for number in range(chunks)], ())


def test_a_piece_has_its_turn_once(store: Store) -> None:
    batch = begun(store)
    late, gone = batch._replace(done=1), batch._replace(id=99)
    with store.write() as tx:
        turns = Turns(tx, [piece(batch), piece(batch), piece(gone)], [])
        assert [turns.take(piece(each)) for each in (batch, batch, gone)] == [True, False, False]
        assert not Turns(tx, [piece(late)], []).take(piece(late))


def test_what_was_appended_is_noted_with_its_offsets(store: Store) -> None:
    batch = begun(store)
    for rows, next_offsets in (
        ({0: [ROW] * 2, 1: [ROW]}, {0: 7, 1: 1}),
        ({0: [ROW] * 3}, {0: 10}),
        ({0: [ROW], 1: [ROW]}, {0: 12, 1: 2}),
    ):
        events = sum(map(len, rows.values()))
        with store.write() as tx:
            advance(tx, piece(batch), Prepared(FEED, events, rows), Published(FEED, events, next_offsets), START_AT)
            [batch] = tx.staging.lock([batch.id], []).values()

    assert batch.is_done
    assert batch.events == 8
    assert json.loads(batch.offsets) == {"0": [[5, 9], [11, 11]], "1": [[0, 1]]}
