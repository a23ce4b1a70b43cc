import asyncio
from collections.abc import Sequence
from functools import partial, wraps
from typing import Any

import pytest

from penstock.errors import BadOutcome, BadParameter, EventUnusable
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.engine.stream import Call
from penstock.processing.handlers import StreamCaller, by_kind
from penstock.processing.outcomes import Failure, done, done_to, skip_to
from penstock.processing.parameters import is_coroutine_function
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.memory import MemorySource
from penstock.processing.stream_event import StreamEvent
from penstock.testing.processing import FaultyHandler, Witness, nth


def failing(error: BaseException) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


class Unspeakable(Exception):
    """Fails to say what it is."""

    def __str__(self) -> str:
        failing(*self.args)()
        return ""


def call(*kinds: str) -> Call:
    return Call("S1", [StreamEvent("S1", at, kind, b"{}") for at, kind in enumerate(kinds, 5)], 1, 0.0)


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        (None, done()),
        (7, done_to(7)),
        (done_to(7), done_to(7)),
        (skip_to(8), skip_to(8)),
        (skip_to(2**63 - 1), skip_to(2**63 - 1)),
        (8, "8, though its span ends at 7, and without skip_to"),
        (done_to(8), "8, though its span ends at 7, and without skip_to"),
        (done_to(100), "100, though its span ends at 7, and without skip_to"),
        (-1, "a handler has returned -1, which is no outcome"),
        ("done", "a handler has returned 'done', which is no outcome"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_returned_value_is_the_outcome_unless_it_passes_over_unseen_events(returned: Any, outcome: Any) -> None:
    given = []

    def handle(stream: str, events: Sequence[Any]) -> Any:
        given.append((stream, [event.index for event in events]))
        return returned

    async def awaited(stream: str, events: Sequence[Any]) -> Any:
        return handle(stream, events)

    for handler in (handle, awaited):
        found = StreamCaller(handler)(call("a", "a"))
        if isinstance(outcome, str):
            assert isinstance(found, Failure)
            assert (found.tag, outcome in found.detail) == ("BadOutcome", True), found.detail
        else:
            assert found == outcome
    assert given == [("S1", [5, 6])] * 2


def test_generator_is_refused_as_a_handler() -> None:
    def yields(_: str, events: Sequence[Any]) -> Any:
        yield from events

    async def yields_in_vain(_: str, events: Sequence[Any]) -> Any:
        yield events

    for given in (yields, yields_in_vain):
        with pytest.raises(BadParameter, match="which yields'; allowed: a function that returns, and does not yield"):
            StreamCaller(given)


def test_handler_with_other_parameters_is_refused_before_anything_runs() -> None:
    def one(event: Any) -> None: ...

    async def classify(error: Exception) -> None: ...

    allowed = r"allowed: a function that takes \(stream, events\)"
    for make in (InlineProcessor, LocalProcessor):
        with pytest.raises(BadParameter, match=rf"handler is 'one\(event\)'; {allowed}"):
            make(one, MemorySource())  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match=rf"handler is missing; {allowed}"):
        StreamCaller(None)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match=r"classify is '<lambda>\(\)'; allowed: a function that takes \(error\)"):
        StreamCaller(print, lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(BadParameter, match="classify is 'async classify'; allowed: a function that is not async"):
        StreamCaller(print, classify)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match=allowed):
        by_kind({"a": one})  # type: ignore[dict-item]
    for given in ([], one, None, {}):
        with pytest.raises(BadParameter, match=r"handlers is .*; allowed: handlers by kind, such as \{'order"):
            by_kind(given)  # type: ignore[arg-type]


def test_callable_without_a_signature_is_accepted() -> None:
    @wraps(lambda event: event)
    def wrapping(*given: Any) -> Any:
        return given

    for handler in (wrapping, dict, partial(print, "seen"), max):
        StreamCaller(handler)


def test_each_run_of_a_kind_goes_to_its_handler() -> None:
    seen: list[tuple[str, list[int]]] = []

    def kept(name: str) -> Any:
        return lambda _, events: seen.append((name, [event.index for event in events]))

    handle = by_kind({"a": kept("a"), "b": kept("b")}, otherwise=kept("other"))

    assert handle("S1", call("a", "a", "b").events) == done_to(7)
    assert handle("S1", call("b").events) == done()
    assert handle("S1", call("c", "a").events) == done_to(6)
    assert seen == [("a", [5, 6]), ("b", [5]), ("other", [5])]


@pytest.mark.parametrize(
    "outcome", [done_to(6, after_seconds=3.0, tag="half"), skip_to(8), BadOutcome], ids=["left", "skipped", "beyond"]
)
def test_handler_of_a_kind_may_leave_events_and_passes_over_others_by_skipping_alone(outcome: Any) -> None:
    handle = by_kind({"a": lambda *_: 8 if outcome is BadOutcome else outcome}, otherwise=lambda *_: None)
    if outcome is BadOutcome:
        with pytest.raises(BadOutcome, match="8, though its span ends at 7"):
            handle("S1", call("a", "a", "b", "b").events)
    else:
        assert handle("S1", call("a", "a", "b", "b").events) == outcome


def test_kind_without_a_handler_is_reported() -> None:
    with pytest.raises(EventUnusable, match="S1: the event at 5 is of kind 'b', which has no handler"):
        by_kind({"a": lambda *_: None})("S1", call("b").events)


RAISED = ", raised by classify for ValueError: no"
TEXT = "classify is 5; allowed: a function that returns a text or None, also for ValueError: no"
FAILURES: dict[str, tuple[BaseException, Any, str, str]] = {
    "under its own name": (ValueError("no"), None, "ValueError", "no"),
    "without a text": (TimeoutError(), None, "TimeoutError", "TimeoutError"),
    "under the user's name": (OSError("429"), lambda _: "rateLimited", "rateLimited", "429"),
    "that the user does not name": (OSError("5"), lambda _: None, "OSError", "5"),
    "that would end a thread": (SystemExit(3), None, "SystemExit", "3"),
    "that would end a task": (asyncio.CancelledError("a part of it"), None, "CancelledError", "a part of it"),
    "whose text cannot be had": (
        Unspeakable(SystemExit(3)), None, "Unspeakable", "its text cannot be had: SystemExit",
    ),
    "whose name is no text": (ValueError("no"), lambda _: 5, "BadParameter", f"parameter {TEXT}"),
    "that cannot be named": (ValueError("no"), failing(KeyError("none")), "KeyError", f"'none'{RAISED}"),
    "whose name would end the program": (ValueError("no"), failing(SystemExit(3)), "SystemExit", f"3{RAISED}"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_raised_error_is_a_failure(name: str) -> None:
    error, classify, tag, detail = FAILURES[name]

    async def awaited(stream: str, events: Sequence[Any]) -> None:
        raise error

    assert StreamCaller(failing(error), classify)(call("a")) == Failure(tag, detail)
    assert asyncio.run(StreamCaller(awaited, classify).call_async(call("a"))) == Failure(tag, detail)


@pytest.mark.parametrize(
    ("error", "classify"),
    [(ValueError("no"), failing(KeyboardInterrupt())), (Unspeakable(KeyboardInterrupt()), None)],
    ids=["named", "put into words"],
)
def test_interrupt_of_the_main_thread_during_a_failure_is_raised(error: Exception, classify: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        StreamCaller(failing(error), classify)(call("a"))


def test_cancelled_call_ends() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(StreamCaller(waiting).call_async(call("a")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def waiting(stream: str, events: Sequence[Any]) -> None:
        await asyncio.Event().wait()

    asyncio.run(cancelled())


def test_origin_of_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "penstock.processing")
    StreamCaller(failing(ValueError("no")))(call("a"))

    assert "a call for S1 has failed" in caplog.text
    assert "in fail" in caplog.text
    assert "ValueError: no" in caplog.text


class Called:
    """An object whose calls are to be awaited."""

    async def __call__(self, _: str, events: Sequence[Any]) -> Any:
        await asyncio.sleep(0)
        return done(awaited=len(events))


@pytest.mark.parametrize("runner", [InlineProcessor, LocalProcessor])
def test_coroutine_handlers_can_be_by_kind_wrapped_or_an_object(runner: Any) -> None:
    async def paid(stream: str, events: Sequence[Any]) -> Any:
        await asyncio.sleep(0)
        return done(paid=len(events))

    def sent(stream: str, events: Sequence[Any]) -> Any:
        return done(sent=len(events))

    handlers = {
        "by kind": by_kind({"paid": paid, "sent": sent}),
        "object": Called(),
        "witness": Witness(paid),
        "faulty": FaultyHandler(Witness(paid), nth(1)),
    }
    counts = {}
    for name, handler in handlers.items():
        source = MemorySource()
        kinds = ("paid", "sent", "paid") if name == "by kind" else ("paid", "paid", "paid")
        source.deliver([StreamEvent("S1", at, kind, b"{}") for at, kind in enumerate(kinds)])
        rules = Rules(backoff=Backoff(first_seconds=0.001))
        if runner is InlineProcessor:
            processor = InlineProcessor(handler, source, rules=rules)
            processor.drain(advance=True)
        else:
            with LocalProcessor(handler, source, rules=rules) as processor:
                processor.wait_until_caught_up(300)
        counts[name] = dict(processor.engine.counts)
    assert counts == {
        "by kind": {"paid": 2, "sent": 1},
        "object": {"awaited": 3},
        "witness": {"paid": 3},
        "faulty": {"paid": 3},
    }
    assert is_coroutine_function(handlers["by kind"])
    assert not is_coroutine_function(by_kind({"sent": sent}))


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ("a\0b\n\ud800", "a\\x00b\n\\ud800"),
        ("x" * 4_000, "x" * 4_000),
        ("x" * 4_001, "x" * 3_999 + "…"),
        ("\0" * 2_000, ("\\x00" * 1_000)[:3_999] + "…"),
    ],
    ids=["cannot be printed", "fits", "is cut", "is cut as it is printed"],
)
def test_failure_text_can_be_stored_and_shown(said: str, detail: str) -> None:
    failure = StreamCaller(failing(ValueError(said)), lambda _: said)(call("a"))

    assert isinstance(failure, Failure)
    assert failure.detail == detail
    tag = detail.replace("\n", "\\n")  # A name is of one line.
    assert failure.tag == (tag if len(tag) <= 200 else tag[:199] + "…")
