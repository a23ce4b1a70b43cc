from penstock.processing.sources.traversal import CHUNK, Traversal, Within


def traversal(count: int) -> Traversal:
    items = [(f"S{number}", number) for number in range(count)]
    return Traversal(lambda: iter(items), "0", before=7, first=100, elapsed=lambda: 0.0)


def test_positions_within_a_traversal_are_kept_as_the_one_before_it_and_known_from_it() -> None:
    under_way = traversal(CHUNK + 1)
    assert under_way.goes_on_at(7)
    first = under_way.take(0.0)
    assert first is not None
    assert (first.end, str(first.end), first.is_tail) == (7, "7", False)
    assert under_way.goes_on_at(first.end)
    assert not under_way.goes_on_at(7)
    assert not under_way.goes_on_at(Within.of(7, 50, CHUNK)), "that is one of another traversal"

    last = under_way.take(0.0)
    assert last is not None
    assert (last.end, last.is_tail) == (100 + CHUNK + 1, True)
    assert [item.index for item in (*first.items, *last.items)] == list(range(100, 100 + CHUNK + 1))


def test_nothing_comes_of_a_traversal_that_is_closed() -> None:
    under_way = traversal(1)
    under_way.close()
    assert under_way.take(0.0) is None
