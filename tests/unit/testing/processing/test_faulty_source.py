from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from penstock.errors import Unavailable
from penstock.processing import LocalProcessor, StreamEvent
from penstock.processing.engine.tranche import Batch, split_batch
from penstock.processing.sources import MemorySource, ReadRequest
from penstock.testing.processing import (
    FaultySource,
    VirtualInline,
    Witness,
    always,
    await_caught_up,
    by_chance,
    never,
    nth,
)


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource("0", "1")
    for number in range(200):
        source.append(f"S{number % 10}", [number, -number], tranche=f"{number % 2}")
    return source


def test_failed_read_reads_nothing(source: MemorySource) -> None:
    faulty = FaultySource(source, fails=nth(1))
    wants = {"0": ReadRequest(0, 100)}
    with pytest.raises(Unavailable, match="a fault was injected into a read"):
        faulty.read(wants, 0.0)
    [batch] = faulty.read(wants, 0.0)

    assert [item.index for item in batch.items] == [0, 1]
    assert (batch.end, faulty.failures) == (1, 1)


def test_repeated_events_follow_the_original_ones_from_their_batch_alone_if_indices_have_gaps(
    source: MemorySource,
) -> None:
    faulty = FaultySource(source, repeats=always, seed=3)
    first, second = (faulty.read({"0": ReadRequest(position, 100)}, 0.0)[0] for position in (0, 1))

    assert [item.index for item in first.items[:2]] == [0, 1]
    assert len(first.items) > 2
    assert {item.stream for item in second.items} == {"S0", "S2"}, "those of the batch before are among them"

    source.is_dense = False
    faulty = FaultySource(source, repeats=always, seed=3)
    _, second = (faulty.read({"0": ReadRequest(position, 100)}, 0.0)[0] for position in (0, 1))

    assert {item.stream for item in second.items} == {"S2"}


def test_mixed_streams_keep_their_own_order_within_the_limit(source: MemorySource) -> None:
    [batch] = FaultySource(source, mixes=always).read({"0": ReadRequest(0, 2)}, 0.0)
    assert len(batch.items) == 2

    events = [StreamEvent(f"T{number % 5}", number // 5, "event", b"{}") for number in range(50)]
    source = MemorySource()
    source.deliver(events[:30])
    source.deliver(events[30:])
    faulty = FaultySource(source, mixes=always, seed=1)
    [batch] = faulty.read({"0": ReadRequest(0, 1000)}, 0.0)

    assert batch.end == 2, "it is two batches"
    assert batch.items != events
    assert Counter(map(id, batch.items)) == Counter(map(id, events))
    for stream in {event.stream for event in events}:
        indices = [item.index for item in batch.items if item.stream == stream]
        assert indices == sorted(indices)


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_all_events_are_handled_in_order_despite_all_faults(
    source: MemorySource, runner: str, seed: int, is_dense: bool
) -> None:
    source.is_dense = is_dense
    times = by_chance(0.3, seed)
    faulty = FaultySource(source, fails=by_chance(0.1, seed + 1), repeats=times, mixes=by_chance(0.5, seed), seed=seed)
    witness = Witness()
    if runner == "inline":
        VirtualInline(witness, faulty).drain(advance=True)
    else:
        with LocalProcessor(witness, faulty) as running:
            await_caught_up(running)

    witness.assert_handled_all(source)
    assert faulty.failures


def test_partial_batches_are_joined_before_mixing() -> None:
    class InParts(MemorySource):
        def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
            return [
                part for batch in super().read(wants, timeout) for part in split_batch(batch, 2, lambda item: item.next)
            ]

    source = InParts()
    source.append("S", range(5))
    for mixes in (never, always):
        [batch] = FaultySource(source, mixes=mixes).read({"0": ReadRequest(0, 10)}, 0.0)
        assert [item.index for item in batch.items] == [0, 1, 2, 3, 4]
        assert (batch.end, batch.is_part) == (1, False)
