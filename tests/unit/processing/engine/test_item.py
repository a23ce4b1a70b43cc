from itertools import pairwise

import pytest

from penstock.processing.engine.item import Batch, in_parts
from tests.unit.processing.engine.items import Thing


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])])
def test_a_batch_is_cut_into_parts_behind_each_of_which_is_a_position(count: int, sizes: list[int]) -> None:
    batch = Batch("0", 100, [Thing("S", index) for index in range(count)], is_tail=True, bytes=70)
    parts = in_parts(batch, 3, lambda item: item.next)

    assert [len(part.items) for part in parts] == sizes
    assert [item for part in parts for item in part.items] == batch.items
    assert [part.end for part in parts] == [*[3, 6, 9][: len(sizes) - 1], 100]
    assert [part.is_part for part in parts] == [following is not None for _, following in pairwise([*parts, None])]
    assert [(part.is_tail, part.bytes) for part in parts] == [(False, None)] * (len(sizes) - 1) + [(True, 70)]
