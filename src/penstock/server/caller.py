"""Who asks: the one place where a request is asked that."""

from starlette.requests import Request

from penstock.hub.permissions import UNAUTHENTICATED, Caller
from penstock.server.state import State, state_of


def caller_of(_: Request) -> Caller:
    """Return who sent the request. Nobody is asked yet: all are the same."""
    return UNAUTHENTICATED


async def administered(request: Request) -> State:
    """Return the state of the app that *request* came to, for a caller who may administer the hub.

    Raises:
        Forbidden: the caller may not.
    """
    state = await state_of(request)
    state.hub.check(caller_of(request), "administer")
    return state
