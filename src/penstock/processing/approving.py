"""Has streams go on without what will never come, and keeps on record who said so."""

import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.errors import BadParameter
from penstock.processing.engine.engine import Engine

_log: Final = logging.getLogger("penstock.processing")


class _Gap(NamedTuple):
    """What a stream waits for."""

    tranche: str
    missing: int
    found: int
    """The first index that there is behind it."""


def approve_missing(
    stream: str,
    reason: str,
    engine: Engine,
    record: Callable[[str, str], None],
    ask: Callable[[Callable[[], Any]], Any],
) -> None:
    """Have a stream go on with what there is: the index that it waits for will never come.

    Args:
        stream: The stream.
        reason: Why.
        engine: What it is in.
        record: Keeps on record what is done, given a tranche. It may wait for a call that goes on, and so must hold
            nobody up whom that waits for.
        ask: Has the thread that has the engine do something, and returns what comes of it.

    Raises:
        BadParameter: it waits for none.
    """
    gap: _Gap = ask(lambda: _gap(engine, stream))
    told = f"{stream} goes on at {gap.found}, though {gap.missing} has not come: {reason}"
    record(gap.tranche, told)
    _log.warning("%s", told)
    ask(lambda: _pass_over(engine, stream, gap))


def _gap(engine: Engine, stream: str) -> _Gap:
    missing = engine.missing().get(stream)
    if missing is None:
        waiting = ", ".join(engine.missing()) or "none does"
        raise BadParameter(parameter="stream", value=stream, allowed=f"one that waits for an index: {waiting}")
    return _Gap(engine.tranche_of(stream), *missing)


def _pass_over(engine: Engine, stream: str, gap: _Gap) -> None:
    """Go on, unless what was missing has come meanwhile."""
    missing, found = engine.missing().get(stream, (None, 0))
    if missing == gap.missing:
        engine.go_on(stream, found)
