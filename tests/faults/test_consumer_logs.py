"""The checks of consumers' logs find lost, skipped, repeated and unordered events."""

from tests.faults.consumed import (
    Batch,
    Commit,
    Story,
    lost_offsets,
    overlapping_batches,
    repeated_batches,
    skipping_batches,
    unordered_batches,
)


def story(*batches: Batch, asked: tuple[Commit, ...] = (), commits: tuple[Commit, ...] = ()) -> Story:
    return Story(batches, asked, commits, {}, {"a": "hub of a", "b": "hub of b"})


def batch(at: float, stream: str, first: int, last: int) -> Batch:
    return Batch(at, stream, "0", first, last)


def test_events_not_read_and_committed_are_lost() -> None:
    asked = (Commit(3, "a", "0", 4), Commit(4, "b", "0", 8))
    told = story(batch(1, "a", 0, 4), batch(2, "b", 6, 9), asked=asked)
    assert lost_offsets(told, {"0": 9}) == {"0": [5]}
    assert lost_offsets(told, {"0": 12}) == {"0": [5, 9, 10, 11]}
    assert lost_offsets(story(batch(1, "a", 0, 9)), {"0": 2}) == {"0": [0, 1]}, "who was killed has only read it"
    assert lost_offsets(story(batch(1, "a", 0, 9), asked=(Commit(2, "a", "0", 9),)), {"0": 10}) == {}


def test_batch_beyond_the_last_commit_is_skipping() -> None:
    first, next_, beyond = batch(1, "a", 0, 4), batch(2, "b", 5, 6), batch(6, "a", 9, 9)
    committed = Commit(1.5, "a", "0", 4)
    assert skipping_batches(story(first, next_, asked=(committed,))) == []
    assert skipping_batches(story(first, batch(2, "b", 3, 6), asked=(committed,))) == []
    assert skipping_batches(story(first, next_)) == [(0, next_)], "what was sent to one who was killed"
    assert skipping_batches(story(first, next_, asked=(committed._replace(at=3),))) == [(0, next_)]
    assert skipping_batches(story(first, batch(2, "a", 5, 8), beyond)) == []
    assert skipping_batches(story(first, batch(2, "a", 5, 7), beyond, asked=(committed,))) == [(8, beyond)]


def test_batch_with_committed_events_is_sent_again() -> None:
    committed = Commit(3, "a", "0", 4)
    early, late = batch(2, "b", 3, 6), batch(4, "b", 4, 6)
    assert repeated_batches(story(batch(1, "a", 0, 4), early, commits=(committed,))) == []
    assert repeated_batches(story(batch(1, "a", 0, 4), late, commits=(committed,))) == [(committed, late)]


def test_batch_behind_the_last_of_its_stream_is_out_of_order() -> None:
    first, again, after = batch(1, "a", 0, 4), batch(2, "a", 4, 6), batch(3, "a", 9, 9)
    assert unordered_batches(story(first, batch(2, "a", 5, 6), after)) == []
    assert unordered_batches(story(first, again)) == [(first, again)]


def test_batch_of_a_stream_that_has_lost_its_partition_is_at_the_same_time() -> None:
    taken, beyond = batch(2, "b", 3, 6), batch(3, "a", 5, 8)
    assert overlapping_batches(story(batch(1, "a", 0, 4), taken, batch(3, "b", 7, 8))) == []
    assert overlapping_batches(story(batch(1, "a", 0, 4), taken, beyond)) == [(taken, beyond)]


def test_batches_of_a_hub_that_was_paused_do_not_count_just_after_it_goes_on() -> None:
    batches = [batch(1.0, "a", 0, 4), batch(5.1, "a", 5, 6), batch(5.2, "b", 5, 6), batch(5.6, "a", 7, 8)]
    told = story(*batches).without_leftovers([("hub of a", 5.0)])
    assert told.batches == [batches[0], batches[2], batches[3]]
