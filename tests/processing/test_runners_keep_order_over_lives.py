"""Each runner, over several lives: nothing is lost, order is kept, and no stream is with two handlers."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.together import Together
from tests.processing.drawn import batches, checked, rules
from tests.processing.lives import TRANCHES, Appended, HonestCheckpoints, Journal, Log

STREAMS_MAX = 3
BATCHES, RULES = batches(0, 12), rules()


class Life(NamedTuple):
    """A life of a processor: the batches before and during it, its length, and its end."""

    before: list[Appended]
    meanwhile: list[Appended]
    lasts: int
    """So many steps, or calls."""
    is_killed: bool
    """Whether it ends without committing what it has done last."""


LIVES = st.lists(st.builds(Life, BATCHES, BATCHES, st.integers(0, 25), st.booleans()), min_size=1, max_size=3)
CHECKED = checked(10, 1200)


def handler_of(journal: Journal, kind: str) -> Any:
    if kind == "together":
        return Together(journal.called_together, streams_max=STREAMS_MAX)
    return journal.awaited if kind == "coroutines" else journal.called


def check_what_is_kept(journal: Journal, checkpoints: HonestCheckpoints) -> None:
    """Check that exactly the done events are committed, except skipped events that were not read."""
    kept = checkpoints.positions()
    assert all(journal.least(each) <= kept.get(each, 0) <= journal.position(each) for each in TRANCHES)


def check_that_all_is_kept(journal: Journal, checkpoints: HonestCheckpoints) -> None:
    """Check that all is done, and committed."""
    assert not journal.wrong
    assert journal.has_done_all()
    kept = checkpoints.positions()
    assert {tranche: kept.get(tranche, 0) for tranche in TRANCHES} == {
        each: journal.position(each) for each in TRANCHES
    }


def check_what_is_read_ahead(running: InlineProcessor, log: Log, rules: Rules) -> None:
    """Check that no tranche has more than it may, but for the batch that was taken in last."""
    for tranche in running.snapshot.tranches:
        position, read = int(tranche.position), int(tranche.read)
        sizes = log.sizes(tranche.name, position, read)
        assert (tranche.pages_ahead, tranche.events_ahead) == (len(sizes), sum(sizes))
        assert len(sizes) <= rules.batches_ahead
        assert sum(sizes[:-1]) < rules.events_ahead


@pytest.mark.parametrize("kind", ["one", "together"])
@given(lives=LIVES, rules=RULES, seed=st.integers(0, 1000))
@CHECKED
def test_inline_processor_keeps_order_and_position_over_random_lives(
    kind: str, lives: list[Life], rules: Rules, seed: int
) -> None:
    log = Log()
    journal = Journal(log, seed, rules, concurrency=1 if kind == "one" else STREAMS_MAX)
    checkpoints, handler = HonestCheckpoints(journal), handler_of(journal, kind)
    for life in lives:
        for batch in life.before:
            log.append(batch)
        checkpoints.is_dead = False
        journal.begin(checkpoints.positions())
        running = InlineProcessor(handler, log.source, checkpoints=checkpoints, rules=rules, seed=seed)
        coming = iter(life.meanwhile)
        for at in range(life.lasts):
            checkpoints.is_dead = life.is_killed and at >= life.lasts // 2
            running.step()
            check_what_is_read_ahead(running, log, rules)
            if not checkpoints.is_dead:
                check_what_is_kept(journal, checkpoints)
            running.advance(0.002)
            for batch in coming:
                log.append(batch)
                break
    checkpoints.is_dead = False
    journal.begin(checkpoints.positions())
    InlineProcessor(handler, log.source, checkpoints=checkpoints, rules=rules).drain(advance=True)
    check_that_all_is_kept(journal, checkpoints)


@pytest.mark.parametrize("kind", ["threads", "coroutines", "together"])
@given(lives=LIVES, rules=RULES, seed=st.integers(0, 1000))
@CHECKED
def test_local_processor_keeps_order_and_position_over_random_lives(
    kind: str, lives: list[Life], rules: Rules, seed: int
) -> None:
    log = Log()
    most = {"threads": rules.concurrency, "together": STREAMS_MAX}.get(kind)
    journal = Journal(log, seed, rules, concurrency=most)
    checkpoints, handler = HonestCheckpoints(journal), handler_of(journal, kind)
    for life in lives:
        for batch in life.before:
            log.append(batch)
        checkpoints.is_dead = False
        journal.begin(checkpoints.positions())
        with LocalProcessor(handler, log.source, checkpoints=checkpoints, rules=rules, commit_interval=0.001):
            for batch in life.meanwhile:
                log.append(batch)
            journal.await_calls(life.lasts)
            checkpoints.is_dead = life.is_killed
        if not life.is_killed:
            check_what_is_kept(journal, checkpoints)
        assert not journal.wrong
    checkpoints.is_dead = False
    journal.begin(checkpoints.positions())
    with LocalProcessor(handler, log.source, checkpoints=checkpoints, rules=rules, commit_interval=0.001) as last:
        last.wait_until_caught_up(300)
    check_that_all_is_kept(journal, checkpoints)
