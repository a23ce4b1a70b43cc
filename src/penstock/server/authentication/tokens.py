"""Tokens of the hub's own database, sent as `Authorization: Bearer pst_…` (RFC 6750)."""

import asyncio
from collections.abc import Coroutine
from typing import Final

from starlette.types import Scope

from penstock.core.access import Caller
from penstock.errors import Unauthenticated
from penstock.hub.admin.tokens import PREFIX, TOKEN_CHARS, KnownToken, Tokens
from penstock.hub.hub import Hub
from penstock.server.authentication.authentication import CALLER, bearer_of
from penstock.server.coalescing import CoalescedRead
from penstock.server.http.requests import CREDENTIAL

LOOK_INTERVAL: Final = 0.05
"""Seconds between two looks into the database for tokens that are not known, however many come."""
RECENT_MAX: Final = 10_000
"""So many headers are remembered; then all are forgotten."""
_PREFIX: Final = PREFIX.encode("ascii")


class TokenMethod:
    """Identifies callers by tokens that `penstock token create` has made."""

    name = "token"

    def __init__(self) -> None:
        self._tokens: Tokens
        self._look: CoalescedRead
        self._recent: dict[bytes | None, KnownToken] = {}
        """By the header: those that were found."""

    def start(self, hub: Hub) -> None:
        """Use the tokens of *hub*."""
        self._tokens = hub.admin.tokens
        self._look = CoalescedRead(lambda: asyncio.to_thread(hub.admin.permissions.refresh), LOOK_INTERVAL)

    def identify(self, scope: Scope) -> Caller | Coroutine[None, None, Caller] | None:
        """Return the caller of the token in *scope*, which may have been created a moment ago; None if it has none.

        Raises:
            Unauthenticated: the token is not well-formed, or was valid when the request began and is no longer; or, of
                the coroutine, unknown, revoked or expired.
        """
        recent = self._recent.get(scope.get(CREDENTIAL))
        if recent is not None and (now := self._tokens.clock()) < recent.expires_at:
            recent.used_at = now
            return recent.caller
        secret = bearer_of(scope)
        if secret is None or not secret.startswith(_PREFIX):
            return None
        if len(secret) != TOKEN_CHARS:
            raise Unauthenticated(reason="token malformed")
        found = self._tokens.find(secret)
        if found is None:
            if CALLER in scope:
                raise self._tokens.explain(secret)
            return self._find_in_database(secret)
        if len(self._recent) >= RECENT_MAX:
            self._recent.clear()
        self._recent[scope[CREDENTIAL]] = found
        return found.caller

    async def _find_in_database(self, secret: bytes) -> Caller:
        """Return the caller of token *secret* from the database; concurrent calls share one query."""
        await self._look.wait()
        found = self._tokens.find(secret)
        if found is None:
            raise self._tokens.explain(secret)
        return found.caller

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
