from penstock.processing.engine.outcome import Failure, done
from penstock.processing.engine.tags import OTHER, TAGS_MAX
from tests.unit.processing.engine.items import batch, engine, things


def test_so_many_tags_are_counted_apart_and_all_others_as_one() -> None:
    running = engine(is_dense=True)
    for number in range(3 * TAGS_MAX):
        running.ingest(batch(number + 1, things(f"S{number}E0")), 0.0)
        [call] = running.take(1, 0.0)
        running.settle(call, Failure(f"error {number}", "none"), 0.0, 0.001)
        [again] = running.take(1, 2.0)
        running.settle(again, done(tag=f"order {number}"), 2.0, 0.001)

    assert len(running.latency) == TAGS_MAX + 1
    assert running.busy.failures[OTHER] == 2 * TAGS_MAX
    assert running.busy.failures["error 0"] == 1
    assert sum(running.busy.failures.values()) == 3 * TAGS_MAX
