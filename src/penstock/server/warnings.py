"""Warnings beside an answer: what was done, although something about it may not be as its owner expects."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from penstock.core.registry.event_type import without_effect


def warn(answer: Response, texts: Iterable[str]) -> Response:
    """Return *answer* with a warning for each of *texts*, which are printable ASCII (RFC 7234, 5.5)."""
    for text in texts:
        answer.headers.append("Warning", f'299 penstock "{text}"')
    return answer


def warn_of_no_effect(answer: Response, name: str, given: Mapping[str, Any]) -> Response:
    """Return *answer* with a warning for each member of the definition *given* that has no effect yet."""
    return warn(answer, (f"{name}: {each}" for each in without_effect(given)))
