"""Any exception of a handler fails its stream, on each runner; an exception of a source ends the processor."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.processing import (
    DatabaseCheckpoints,
    Inline,
    IterableSource,
    Local,
    MemorySource,
    Rules,
    StreamEvent,
    Together,
    Transactional,
)
from penstock.processing.engine.backoff import Backoff
from penstock.processing.engine.item import Batch
from penstock.processing.sources.source import Want
from penstock.processing.together import Span

SOON_SECONDS = 300.0
QUICK = Rules(backoff=Backoff(first_seconds=0.01, max_seconds=0.05))


class Bare(BaseException):
    """Is no Exception."""


class Ending(MemorySource):
    """A source that would end the program."""

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:  # noqa: ARG002
        sys.exit(3)


class Raising:
    """A handler, as each of its kinds, that raises what it is given so many times, in stream `bad`."""

    def __init__(self, error: BaseException, url: str, times: int) -> None:
        self.seen: list[tuple[str, int]] = []
        self._errors = [error] * times
        self._url = url

    def each(self, stream: str, events: Sequence[Any]) -> None:
        if stream == "bad" and self._errors:
            raise self._errors.pop()
        self.seen += [(stream, event.index) for event in events]

    async def awaited(self, stream: str, events: Sequence[Any]) -> None:
        self.each(stream, events)

    def kind(self, name: str) -> Any:
        def spans(them: Sequence[Span]) -> None:
            for stream, events in sorted(them, reverse=True):
                self.each(stream, events)

        if name == "together":
            return Together(spans)
        if name == "transactional":
            return Transactional(self._url, lambda _, them: spans(them), DatabaseCheckpoints(self._url, "told"))
        return self.awaited if name == "awaited" else self.each


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    source.append("bad", [0])
    source.append("good", [0, 1])
    return source


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/consumer.db"


KINDS = pytest.mark.parametrize("kind", ["each", "awaited", "together", "transactional"])


@KINDS
@pytest.mark.parametrize("error", [SystemExit(3), Bare("bare")], ids=["exit", "bare"])
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_system_exit_or_bare_exception_fails_its_stream_alone(
    source: MemorySource, url: str, kind: str, error: BaseException, runner: str
) -> None:
    raising = Raising(error, url, times=2)  # Those who are called together are tried in halves.
    if runner == "inline":
        stepped = Inline(raising.kind(kind), source, rules=QUICK)
        stepped.drain(advance=True)
        failures = stepped.engine.busy.failures
    else:
        with Local(raising.kind(kind), source, rules=QUICK) as running:
            running.wait_until_caught_up(SOON_SECONDS)
        failures = running.engine.busy.failures
    assert {*failures} == {type(error).__name__}
    assert ("bad", 0) in raising.seen
    assert {("good", 0), ("good", 1)} <= {*raising.seen}


@KINDS
def test_keyboard_interrupt_is_no_failure_and_the_processor_can_go_on(
    source: MemorySource, url: str, kind: str
) -> None:
    raising = Raising(KeyboardInterrupt(), url, times=1)
    processor = Inline(raising.kind(kind), source, rules=QUICK)
    with pytest.raises(KeyboardInterrupt):
        processor.drain()
    assert not processor.engine.busy.failures
    raising.seen.clear()
    processor.drain()
    assert ("bad", 0) in raising.seen


def batches() -> Iterator[list[StreamEvent]]:
    yield [StreamEvent("a-1", 0, "kind", b"1")]
    sys.exit(3)


@pytest.mark.parametrize("made", [lambda: IterableSource(batches()), Ending], ids=["iterable", "read"])
def test_system_exit_in_a_source_ends_the_processor(made: Callable[[], Any]) -> None:
    processor = Local(lambda _, __: None, made()).start()
    assert processor.wait(SOON_SECONDS)
    with pytest.raises(SystemExit, match="3"):
        processor.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(SystemExit, match="3"):
        processor.stop()
