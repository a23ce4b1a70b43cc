"""What hypothesis draws for processors: what is appended to a log, and the rules that they keep to."""

from hypothesis import settings
from hypothesis import strategies as st

from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.rules import Rules
from tests.processing.lives import TRANCHES, Appended

BACKOFF = Backoff(first=0.001, most=0.004)
AT_LENGTH = "at-length"
"""The profile of `make soak`: thirty times as many examples, and others each time."""


def checked(examples: int) -> settings:
    """Return how thoroughly a property is looked at: the same so many *examples* each time, unless `AT_LENGTH`."""
    is_long = settings.get_current_profile_name() == AT_LENGTH
    return settings(max_examples=30 * examples if is_long else examples, derandomize=not is_long)


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
