"""What must hold of what consumers have written down is noticed where it does not."""

from tests.faults.consumed import Batch, Commit, Story, at_the_same_time, lost, out_of_order, sent_again, skipped


def story(*batches: Batch, asked: tuple[Commit, ...] = (), commits: tuple[Commit, ...] = ()) -> Story:
    return Story(batches, asked, commits, {}, {"a": "hub of a", "b": "hub of b"})


def batch(at: float, stream: str, first: int, last: int) -> Batch:
    return Batch(at, stream, "0", first, last)


def test_what_nobody_has_read_and_asked_to_be_committed_is_lost() -> None:
    asked = (Commit(3, "a", "0", 4), Commit(4, "b", "0", 8))
    told = story(batch(1, "a", 0, 4), batch(2, "b", 6, 9), asked=asked)
    assert lost(told, {"0": 9}) == {"0": [5]}
    assert lost(told, {"0": 12}) == {"0": [5, 9, 10, 11]}
    assert lost(story(batch(1, "a", 0, 9)), {"0": 2}) == {"0": [0, 1]}, "who was killed has only read it"
    assert lost(story(batch(1, "a", 0, 9), asked=(Commit(2, "a", "0", 9),)), {"0": 10}) == {}


def test_a_stream_begins_no_further_on_than_anybody_has_asked_to_commit() -> None:
    first, next_, beyond = batch(1, "a", 0, 4), batch(2, "b", 5, 6), batch(6, "a", 9, 9)
    committed = Commit(1.5, "a", "0", 4)
    assert skipped(story(first, next_, asked=(committed,))) == []
    assert skipped(story(first, batch(2, "b", 3, 6), asked=(committed,))) == []
    assert skipped(story(first, next_)) == [(0, next_)], "what was sent to one who was killed"
    assert skipped(story(first, next_, asked=(committed._replace(at=3),))) == [(0, next_)]
    assert skipped(story(first, batch(2, "a", 5, 8), beyond)) == []
    assert skipped(story(first, batch(2, "a", 5, 7), beyond, asked=(committed,))) == [(8, beyond)]


def test_what_was_committed_is_not_sent_again() -> None:
    committed = Commit(3, "a", "0", 4)
    early, late = batch(2, "b", 3, 6), batch(4, "b", 4, 6)
    assert sent_again(story(batch(1, "a", 0, 4), early, commits=(committed,))) == []
    assert sent_again(story(batch(1, "a", 0, 4), late, commits=(committed,))) == [(committed, late)]


def test_the_order_within_a_stream_is_kept() -> None:
    first, again, after = batch(1, "a", 0, 4), batch(2, "a", 4, 6), batch(3, "a", 9, 9)
    assert out_of_order(story(first, batch(2, "a", 5, 6), after)) == []
    assert out_of_order(story(first, again)) == [(first, again)]


def test_a_stream_that_has_lost_a_partition_is_sent_no_more_of_it() -> None:
    taken, beyond = batch(2, "b", 3, 6), batch(3, "a", 5, 8)
    assert at_the_same_time(story(batch(1, "a", 0, 4), taken, batch(3, "b", 7, 8))) == []
    assert at_the_same_time(story(batch(1, "a", 0, 4), taken, beyond)) == [(taken, beyond)]


def test_what_a_hub_hands_out_that_stood_still_does_not_count_for_a_moment() -> None:
    batches = [batch(1.0, "a", 0, 4), batch(5.1, "a", 5, 6), batch(5.2, "b", 5, 6), batch(5.6, "a", 7, 8)]
    told = story(*batches).without_leftovers([("hub of a", 5.0)])
    assert told.batches == [batches[0], batches[2], batches[3]]
