"""Who asks: the one place where a request is asked that."""

from starlette.requests import Request

from penstock.hub.admin.settings import UNAUTHENTICATED, Caller, Operation
from penstock.server.state import State, state_of, subscription_of


def caller_of(_: Request) -> Caller:
    """Return who sent the request. Nobody is asked yet: all are the same."""
    return UNAUTHENTICATED


async def administered(request: Request) -> State:
    """Return the state of the app that *request* came to, for a caller who may administer the hub.

    Raises:
        Forbidden: the caller may not.
    """
    state = await state_of(request)
    state.hub.admin.permissions.check(caller_of(request), "administer")
    return state


async def subscription_asked(request: Request, operation: Operation) -> tuple[State, str]:
    """Return the state, and the id of the subscription that *request* is about, for a caller who may do *operation*.

    Raises:
        Forbidden: the caller may not.
    """
    state = await state_of(request)
    state.hub.admin.permissions.check(caller_of(request), operation)
    return state, subscription_of(request)
