"""Waits until processors that run have handled what there is, and says what holds them up where they do not."""

import time
from typing import Final

from penstock.errors import BadParameter, Unavailable
from penstock.processing.parameters import check_kind, check_seconds
from penstock.processing.runners.processor import Processor

_ALLOWED: Final = (
    "processors that run, one after the other: a LocalProcessor or a SparkProcessor; "
    "an InlineProcessor takes its steps in drain()"
)


def await_caught_up(*processors: Processor, timeout: float = 30.0) -> None:
    """Wait until nothing is behind what all *processors* have handled and committed, for up to *timeout* seconds.

    They may make events for each other: it is over when all are caught up and none has handled anything meanwhile.

    Raises:
        BadParameter: there is no processor, one does not run by itself, or *timeout* is no number of seconds.
        AssertionError: that has not come in time; says what is behind, and which streams make no progress and why.
        PenstockError: what has ended one of them.
    """
    if not processors:
        raise BadParameter(
            parameter="processors", value=None, allowed="one processor at least, such as a LocalProcessor"
        )
    for processor in processors:
        check_kind("processors", processor, Processor, _ALLOWED)
    check_seconds("timeout", timeout, zero=True)
    deadline, handled = time.monotonic() + timeout, -1
    while handled != (handled := sum(processor.engine.handled for processor in processors)):
        for processor in processors:
            _await_one(processor, max(0.0, deadline - time.monotonic()), timeout)
        if time.monotonic() > deadline:
            raise AssertionError(f"the processors still make events for each other after {timeout:g} s")


def _await_one(processor: Processor, seconds: float, timeout: float) -> None:
    try:
        processor.wait_until_caught_up(seconds)
    except Unavailable as error:
        busy = processor.engine.busy
        troubles = [
            f"{each.stream}: {state} at {each.index} for {each.attempts} attempts"
            + (f", {each.tag}: {each.detail}" if each.detail else "")
            for state, streams in (("failing", busy.failing), ("stalled", busy.stalled))
            for each in [*streams.values()]
        ]
        told = [f"not caught up within {timeout:g} s", error.detail, *troubles]
        raise AssertionError("\n".join(told)) from error
