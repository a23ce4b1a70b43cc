"""Tokens of the hub's own database, sent as `Authorization: Bearer pst_…` (RFC 6750)."""

from starlette.types import Scope

from penstock.core.access import Caller
from penstock.errors import Unauthenticated
from penstock.hub.admin.tokens import PREFIX, TOKEN_CHARS, Tokens
from penstock.hub.hub import Hub
from penstock.server.authentication.authentication import bearer_of

_PREFIX = PREFIX.encode("ascii")


class TokenMethod:
    """Finds the callers of tokens that `penstock token create` has made."""

    name = "token"

    def __init__(self) -> None:
        self._tokens: Tokens | None = None

    def start(self, hub: Hub) -> None:
        """Look tokens up in those of *hub*."""
        self._tokens = hub.admin.tokens

    def identify(self, scope: Scope) -> Caller | None:
        """Return the caller of the token in *scope*; None if it has none.

        Raises:
            Unauthenticated: the token is unknown, revoked or expired.
        """
        secret = bearer_of(scope)
        if secret is None or not secret.startswith(_PREFIX):
            return None
        assert self._tokens is not None
        caller = self._tokens.find(secret) if len(secret) == TOKEN_CHARS else None
        if caller is None:
            raise Unauthenticated
        return caller

    def close(self) -> None:
        """Nothing is held."""
