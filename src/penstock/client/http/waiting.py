"""How synchronous clients wait; `async_waiting` has the same for asynchronous ones. Both are written by hand."""

import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

Events: TypeAlias = Iterable[Any]

sleep: Final = time.sleep
each: Final = iter


def shielded(seconds: float = math.inf) -> AbstractContextManager[None]:  # noqa: ARG001 - as of `async_shielded`
    """Return a block that changes nothing: nobody cancels a thread."""
    return nullcontext()
