from penstock.processing.quota import Quota


def test_so_many_lines_of_a_kind_go_through_and_the_others_are_counted() -> None:
    quota = Quota(lines_max=2, every_s=10.0)

    assert [quota.allows("failing", now) for now in (0.0, 1.0, 2.0, 9.0)] == [True, True, False, False]
    assert quota.allows("parked", 9.0)
    assert quota.left_out(9.9) == {}
    assert quota.left_out(10.0) == {"failing": 2}
    assert quota.allows("failing", 11.0), "another while has begun"
    assert quota.left_out(20.0) == {}, "and is not over yet"
    assert quota.left_out(21.0) == {}, "nothing was left out in it"
