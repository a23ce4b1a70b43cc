import pickle

from penstock.processing.sources.selection import Selection


def test_it_says_what_it_allows() -> None:
    assert str(Selection()) == "streams: not $…"
    assert str(Selection(include_system=True)) == "all"
    chosen = Selection(event_types=["order"], except_kinds=["^draft"])
    assert str(chosen) == r"event_types: ^order\Z; kinds: all, not ^draft; streams: not $…"


def test_it_is_the_same_where_it_was_sent_to() -> None:
    chosen = Selection(event_types=["order"], except_streams=["order-2"], kinds=["placed"])
    assert chosen.allows("order-1", "placed", "0")

    sent = pickle.loads(pickle.dumps(chosen))

    events = [("order-1", "placed"), ("order-2", "placed"), ("order-1", "paid"), ("bill-1", "placed"), ("$x", "placed")]
    assert [sent.allows(stream, kind, "0") for stream, kind in events] == [True, False, False, False, False]
    assert sent.allows("order.line-1", "placed", "order/3") is False
    assert bool(sent.kinds)
