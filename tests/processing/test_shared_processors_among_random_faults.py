"""Processors that share tranches handle all events, in order and never two at once, among random faults.

Calls fail, last too long, and are parked; processes come, end, are killed, and stand still beyond their leases, and
tranches are added. Rows that are written in the transactions that move positions are there once.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.processing.engine.rules import Rules
from penstock.testing.postgres import PostgresCluster
from tests.processing.crew import SIZE, Crew, Kind
from tests.processing.drawn import checked, rules
from tests.processing.duties import Duties, Place
from tests.processing.lives import Appended


class Round(NamedTuple):
    """Batches to append, a number of calls to wait for, and a step of the crew after them."""

    appended: list[Appended]
    calls: int
    told: tuple[Any, ...]


BATCH = st.builds(Appended, st.sampled_from("abcd"), st.lists(st.integers(0, 2), min_size=3, max_size=8))
ONE = st.integers(0, SIZE - 1)
SOME = st.frozensets(ONE, min_size=1, max_size=2)
TOLD = st.one_of(
    st.tuples(st.just("begin")),
    st.tuples(st.just("stand"), SOME, st.integers(0, 2)),
    st.tuples(st.just("stand"), SOME, st.integers(3, 6)),
    st.tuples(st.just("end"), ONE),
    st.tuples(st.just("kill"), ONE),
    st.tuples(st.just("pass_time")),
    st.tuples(st.just("mend"), st.integers(1, 2)),
    st.tuples(st.just("retry")),
)
ROUNDS = st.lists(
    st.builds(Round, st.lists(BATCH, min_size=2, max_size=5), st.integers(1, 12), TOLD), min_size=4, max_size=12
)


class Story(NamedTuple):
    """The rounds of a crew, and the behaviour of its handlers."""

    rounds: list[Round]
    rules: Rules
    seed: int
    broken: frozenset[Place]
    slow: frozenset[Place]
    is_dense: bool


PLACE = st.tuples(st.builds("{}{}".format, st.sampled_from("abcd"), st.integers(0, 2)), st.integers(0, 9))
BROKEN, SLOW = st.frozensets(PLACE, max_size=4), st.frozensets(PLACE, min_size=4, max_size=10)
TIMEOUT = st.sampled_from([None, 0.01])
RULES = rules(timeout=TIMEOUT) | rules(timeout=TIMEOUT, attempts_max=st.integers(1, 3), exhausted=st.just("park"))
STORIES = st.builds(Story, ROUNDS, RULES, st.integers(0, 1000), BROKEN, SLOW, st.booleans())


@pytest.fixture(scope="module", autouse=True)
def reading() -> Iterator[None]:
    """Have nobody wait long for events of those tranches that it has, while it could have others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.processing.runners.background.READ_TIMEOUT", 0.01)
        yield


@contextmanager
def file() -> Iterator[str]:
    """Lend a SQLite database."""
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/shared.db"


@contextmanager
def database(cluster: PostgresCluster) -> Iterator[str]:
    """Lend a PostgreSQL database."""
    url = cluster.create_database()
    yield url
    cluster.drop_database(url)


def check(url: str, kind: Kind, story: Story) -> None:
    """Have a crew do as it is told, and all that is left."""
    crew = Crew(url, kind, story.rules, Duties(story.seed, story.broken, story.slow))
    crew.log.source.is_dense = story.is_dense
    with closing(crew):
        crew.begin()
        crew.begin()
        for appended, calls, (what, *given) in story.rounds:
            for batch in appended:
                crew.log.append(batch)
            crew.work(calls)
            getattr(crew, what)(*given)
        crew.finish()


@pytest.mark.parametrize("kind", get_args(Kind))
@given(STORIES)
@checked(2, 240)
def test_shared_processors_keep_order_and_effects_on_sqlite(kind: Kind, story: Story) -> None:
    with file() as url:
        check(url, kind, story)


@pytest.mark.parametrize("kind", ["transactional", "threads"])
@given(STORIES)
@checked(1, 120)
def test_shared_processors_keep_order_and_effects_on_postgres(
    postgres_cluster: PostgresCluster, kind: Kind, story: Story
) -> None:
    with database(postgres_cluster) as url:
        check(url, kind, story)
