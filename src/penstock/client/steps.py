"""Steps through an exchange: what it wants next, given what came of the last step. Does no I/O."""

from typing import Any, Generic

from penstock.client.http_library import failure
from penstock.errors import ConnectionLost, PenstockError
from penstock.wire.exchange import Exchange, Request, T


class Steps(Generic[T]):
    """An exchange under way.

    An interruption (a cancelled task, Ctrl-C) is raised to whoever interrupted; should they come back for the next
    step, the exchange is told that its answer was lost.
    """

    outcome: T
    """What the exchange came to, once it has ended."""

    def __init__(self, exchange: Exchange[T]) -> None:
        self._exchange = exchange
        self._result: Any = None
        self._lost: PenstockError | None = None
        self._url = ""

    def following(self) -> Any:
        """Return the next effect; None when the exchange has ended.

        Raises:
            PenstockError: what the exchange has failed with.
        """
        result, lost = self._result, self._lost
        self._result = self._lost = None
        try:
            effect = self._exchange.send(result) if lost is None else self._exchange.throw(lost)
        except StopIteration as stop:
            self.outcome = stop.value
            return None
        if isinstance(effect, Request):
            self._url = effect.url
        return effect

    def done(self, result: Any) -> None:
        """Take note of what came of the effect."""
        self._result = result

    def failed(self, error: BaseException) -> None:
        """Take note that a request or the reading of its answer has failed; raise what is no such failure."""
        self._lost = failure(error, self._url) if isinstance(error, Exception) else None
        if self._lost is None:
            self._lost = ConnectionLost(url=self._url, reason="the reader was interrupted")
            raise error

    def close(self) -> None:
        """Give the exchange up."""
        self._exchange.close()
