from collections.abc import Sequence
from random import Random

import pytest

from penstock.processing.engine.rules import Backoff
from penstock.processing.outcomes import Outcome, done_to, retry, skip_to
from penstock.processing.stream_event import StreamEvent
from penstock.processing.targets.copying import copy_streams
from penstock.processing.targets.target import Attained, Duplicate, Partial, PrefixMissing, Written


class Target:
    """Answers as it is told to."""

    def __init__(self, *answers: Attained) -> None:
        self.answers = [*answers]
        self.expected: list[int | None] = []

    def append(self, stream: str, expected: int | None, events: Sequence[StreamEvent]) -> Attained:
        assert stream == events[0].stream
        self.expected.append(expected)
        return self.answers.pop(0)


SPAN = [StreamEvent("S", at, "k", b"{}") for at in (3, 4, 5)]


@pytest.mark.parametrize(
    ("attained", "outcome"),
    [
        (Written(6), done_to(6, tag="written", written=3)),
        (Duplicate(6), done_to(6, tag="duplicate", duplicate=3)),
        (Duplicate(9), skip_to(9, tag="duplicate", duplicate=3)),
        (Partial(6, 1), done_to(6, tag="partial", written=1, duplicate=2, waiting=0)),
        (Partial(5, 1), done_to(5, tag="partial", written=1, duplicate=1, waiting=1)),
    ],
)
def test_events_attained_by_the_target_are_done(attained: Attained, outcome: Outcome) -> None:
    target = Target(attained, attained)
    assert copy_streams(target, dense=True)("S", SPAN) == outcome
    assert copy_streams(target, dense=False)("S", SPAN) == outcome
    assert target.expected == [3, None]


def test_stream_without_its_beginning_waits_longer_and_longer_until_it_comes() -> None:
    missing = PrefixMissing(1)
    handler = copy_streams(
        Target(missing, missing, missing, Written(6), missing),
        dense=True,
        backoff=Backoff(first_seconds=1.0, max_seconds=3.0, jitter=0.0),
        random=Random(1),
    )
    found = [handler("S", SPAN) for _ in range(5)]
    assert [found[at].after_seconds for at in (0, 1, 2, 4)] == [1.0, 2.0, 3.0, 1.0]
    assert found[0] == retry(1.0, tag="prefix-missing", waiting=3)


def test_target_without_progress_is_not_asked_again_at_once() -> None:
    outcome = copy_streams(Target(Written(3)), dense=False)("S", SPAN)
    assert outcome.after_seconds is not None
    assert outcome.after_seconds > 0
