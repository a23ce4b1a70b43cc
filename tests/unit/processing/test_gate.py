from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.batcher import Gate


def test_call_lingers_from_its_first_entry_on_unless_it_is_full() -> None:
    gate: Gate[str] = Gate(linger_seconds=2.0, most=2)
    assert gate.wait(0.0) is None
    gate.add("a", 10.0)
    assert gate.wait(10.5) == 1.5
    assert list(gate.take(10.5)) == []
    gate.add("b", 10.5)
    assert gate.wait(10.5) == 0
    gate.add("c", 10.5)
    assert gate.take(10.5) == ["a", "b"]
    gate.end()
    assert gate.wait(11.0) == 1.5, "the third has waited since it was added"
    assert gate.take(12.5) == ["c"]


@given(
    steps=st.lists(st.sampled_from(["add", "take", "end", "withdraw", "later"]), max_size=60),
    linger_seconds=st.sampled_from([0.0, 1.0, 2.5]),
    most=st.none() | st.integers(1, 4),
)
def test_each_entry_is_taken_once_in_order_whatever_happens(
    steps: list[str], linger_seconds: float, most: int | None
) -> None:
    gate: Gate[int] = Gate(linger_seconds, most)
    now, added, taken, withdrawn, is_busy = 0.0, 0, [], set(), False
    for step in steps:
        if step == "add":
            gate.add(added, now)
            added += 1
        elif step == "take":
            found = list(gate.take(now))
            assert not (found and is_busy), "never two at once"
            assert most is None or len(found) <= most
            is_busy = is_busy or bool(found)
            taken += found
        elif step == "end":
            gate.end()
            is_busy = False
        elif step == "withdraw" and gate.first is not None:
            withdrawn.add(gate.first)
            assert gate.withdraw(gate.first)
        else:
            now += 1.0
    gate.end()
    while more := gate.take(now + linger_seconds):
        taken += more
        gate.end()
    assert taken == [number for number in range(added) if number not in withdrawn]
