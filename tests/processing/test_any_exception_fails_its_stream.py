"""Any exception of a handler fails its stream, on each runner; an exception of a source ends the processor."""

import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules, StreamEvent, Transactional
from penstock.processing.engine.rules import Backoff
from penstock.processing.engine.tranche import Batch
from penstock.processing.sources import IterableSource, MemorySource
from penstock.processing.sources.source import ReadRequest
from penstock.processing.together import Span, Together

SOON_SECONDS = 300.0
QUICK = Rules(backoff=Backoff(first_seconds=0.01, max_seconds=0.05))


class Bare(BaseException):
    """Is no Exception."""


class Ending(MemorySource):
    """A source that cannot be read."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:  # noqa: ARG002
        raise self._error


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
@pytest.mark.parametrize(
    ("runner", "error"),
    [
        ("inline", SystemExit(3)),
        ("inline", Bare("bare")),
        ("local", SystemExit(3)),
        ("local", Bare("bare")),
        ("local", CancelledError()),
        ("local", KeyboardInterrupt()),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_exception_that_would_end_a_thread_fails_its_stream_alone(
    source: MemorySource, url: str, kind: str, error: BaseException, runner: str
) -> None:
    raising = Raising(error, url, times=2)  # Those who are called together are tried in halves.
    if runner == "inline":
        stepped = InlineProcessor(raising.kind(kind), source, rules=QUICK)
        stepped.drain(advance=True)
        failures = stepped.engine.busy.failures
    else:
        with LocalProcessor(raising.kind(kind), source, rules=QUICK) as running:
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
    processor = InlineProcessor(raising.kind(kind), source, rules=QUICK)
    with pytest.raises(KeyboardInterrupt):
        processor.drain()
    assert not processor.engine.busy.failures
    raising.seen.clear()
    processor.drain()
    assert ("bad", 0) in raising.seen


def batches() -> Iterator[list[StreamEvent]]:
    yield [StreamEvent("a-1", 0, "kind", b"1")]
    sys.exit(3)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda: IterableSource(batches()), SystemExit),
        (lambda: Ending(SystemExit(3)), SystemExit),
        (lambda: Ending(OSError(3, "gone")), OSError),
    ],
    ids=["exit of an iterable", "exit", "error"],
)
def test_exception_of_a_source_ends_the_processor(made: Callable[[], Any], error: type[BaseException]) -> None:
    processor = LocalProcessor(lambda _, __: None, made()).start()
    assert processor.wait(SOON_SECONDS)
    with pytest.raises(error, match="3"):
        processor.wait_until_caught_up(SOON_SECONDS)
    with pytest.raises(error, match="3"):
        processor.stop()
