from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.source import Want


def test_each_append_is_a_batch_and_a_streams_events_are_numbered_on() -> None:
    source = MemorySource()
    source.append("S1", [{"n": 1}, {"n": 2}])
    source.append("S1", [{"n": 3}], kind="other")

    [first] = source.read({"0": Want(0, 1)}, 0.0)
    [second] = source.read({"0": Want(first.end, 1)}, 0.0)

    assert [(event.index, event.data, event.kind) for event in (*first.items, *second.items)] == [  # type: ignore[attr-defined]
        (0, {"n": 1}, "event"), (1, {"n": 2}, "event"), (2, {"n": 3}, "other"),
    ]  # fmt: skip
    assert (first.is_tail, second.is_tail) == (False, True)
    assert source.read({"0": Want(second.end, 1)}, 0.0) == []


def test_a_tranche_is_there_once_something_is_appended_to_it() -> None:
    source = MemorySource("a")
    source.append("S1", [1], tranche="b")

    assert source.tranches() == ["a", "b"]
    assert [batch.tranche for batch in source.read({"a": Want(0, 9), "b": Want(0, 9)}, 0.0)] == ["b"]
