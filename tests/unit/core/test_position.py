import pytest

from penstock.core.cursor import View
from penstock.core.position import covered, slice_of, view_of


@pytest.mark.parametrize(("n", "partition"), [(4, 3), (2, 1), (1, 0), (8, 5), (4_096, 4_095)], ids=str)
def test_a_slice_is_of_the_view_that_it_is_kept_for(n: int, partition: int) -> None:
    view = View(n, partition, 4)

    assert view_of(slice_of(view), 4) == view
    assert covered("cursorset", slice_of(view), 4, []) == set(view.physical)


@pytest.mark.parametrize(
    "text", ["", "1", "4/4", "3/0", "0/0", "04/1", "4/-1", "99999/0", "4/1 ", "\u0664/0"], ids=repr
)
def test_no_view_is_kept_as(text: str) -> None:
    assert view_of(text, 4) is None
    assert covered("cursorset", text, 4, [2, 7]) == {2}


def test_what_is_not_cut_covers_all_and_a_part_of_its_own_what_is_known() -> None:
    assert covered("processor", "", 3, [1]) == {0, 1, 2}
    assert covered("spark", "2/1", 4, [0, 9]) == {0}
