"""Who asks: the one place where a request is asked that."""

from starlette.requests import Request

from penstock.hub.permissions import UNAUTHENTICATED, Caller


def caller_of(_: Request) -> Caller:
    """Return who sent the request. Nobody is asked yet: all are the same."""
    return UNAUTHENTICATED
