"""Strategies for processors: the batches of their log, and their rules."""

from hypothesis import settings
from hypothesis import strategies as st

from penstock.processing.engine.rules import Backoff, Rules
from tests.exhaustive import is_exhaustive
from tests.processing.lives import TRANCHES, Appended

BACKOFF = Backoff(first_seconds=0.001, max_seconds=0.004)


def checked(few: int, many: int) -> settings:
    """Return how a property is checked: with the same *few* examples each time, or *many* others in `make test-all`."""
    return settings(max_examples=many if is_exhaustive() else few, derandomize=not is_exhaustive())


def batches(least: int, most: int, *, events: int = 6) -> st.SearchStrategy[list[Appended]]:
    """Draw from *least* to *most* batches of up to so many *events*, of three streams in each tranche."""
    streams = st.lists(st.integers(0, 2), min_size=1, max_size=events)
    return st.lists(st.builds(Appended, st.sampled_from(TRANCHES), streams), min_size=least, max_size=most)


def rules(
    batches_ahead: int = 4, events_ahead: int = 12, **others: st.SearchStrategy[object]
) -> st.SearchStrategy[Rules]:
    """Draw rules by which little is read ahead, up to so much; *others* say what else is drawn."""
    return st.builds(
        Rules,
        concurrency=st.integers(1, 4),
        batches_ahead=st.integers(1, batches_ahead),
        events_ahead=st.integers(1, events_ahead),
        events_per_call=st.integers(1, 5),
        backoff=st.just(BACKOFF),
        **others,
    )
