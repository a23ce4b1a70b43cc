"""Tokens: secrets by which callers identify themselves, kept as digests in the hub's own database."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex, token_urlsafe
from typing import Final, NamedTuple

from penstock.core.access import Caller, Sender
from penstock.core.times import format_time
from penstock.errors import RecordNotFound, TokenSuperseded, Unauthenticated
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.storage.admin import StoredToken
from penstock.storage.store import Store, Tx

PREFIX: Final = "pst_"
"""Every token begins so, by which scanners for secrets find lost ones."""
TOKEN_CHARS: Final = len(PREFIX) + 43
_SECRET_BYTES: Final = 32
USE_INTERVAL: Final = 60.0
"""Seconds between two records of when tokens were last used."""
REVOKED_MAX: Final = 1_000
"""Maximum number of revoked tokens that are remembered, to say in the log why they are refused."""


class NewToken(NamedTuple):
    """A token that was just created, with the secret, which is nowhere else."""

    token: StoredToken
    secret: str


class KnownToken:
    """A token in this process's memory. It changes with the stored token, so users may keep it.

    Attributes:
        stored: The token when it was last read from the database.
        caller: The caller that it authenticates.
        expires_at: It is valid before that, in microseconds since 1970, UTC; infinity: always. 0 once it was deleted.
        used_at: When it was last used here, as set by its users. 0: never.
        noted_at: The value of `used_at` that was last recorded.
    """

    __slots__ = ("caller", "expires_at", "noted_at", "stored", "used_at")

    def __init__(self, stored: StoredToken) -> None:
        self.caller = stored.caller
        self.used_at = self.noted_at = 0
        self.replace(stored)

    def replace(self, stored: StoredToken) -> None:
        """Take the state of the token from the row *stored*."""
        self.stored = stored
        self.expires_at: float = math.inf if stored.expires_at is None else stored.expires_at


class Tokens:
    """The tokens of one store. Safe to use from many threads.

    `find` looks only at what `replace_known` was given last, so that no request costs a query.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.clock = clock
        self._known: dict[bytes, KnownToken] = {}
        """By digest."""
        self._revoked: dict[bytes, str] = {}
        """By digest: the ids of tokens that were known, and were deleted; the last to be deleted are last."""
        self._noted_at = time.monotonic()

    def create(self, caller: Caller, *, expires_in_seconds: float | None = None, by: Sender | None = None) -> NewToken:
        """Create a token for *caller*, which expires after that many seconds, or never.

        Raises:
            DatabaseUnavailable: the token may have been created, but its secret is lost.
        """
        with self._store.write() as tx:
            now = self.clock()
            expires_at = None if expires_in_seconds is None else now + round(expires_in_seconds * 1_000_000)
            created = _make_token(caller, now, expires_at)
            self._insert(tx, created, by)
        return created

    def rotate(
        self,
        id: str,
        *,
        overlap_seconds: float,
        by: Sender | None = None,
        hand_over: Callable[[NewToken], object] = lambda _: None,
    ) -> NewToken:
        """Create a token for the caller of another one, which expires after *overlap_seconds*. It lives as long again.

        *hand_over* gets the new token while no transaction is open. If it raises, the old one stays as it was.

        Raises:
            RecordNotFound: there is no such token.
            TokenSuperseded: it was rotated before, so that its life no longer tells how long another should live.
        """
        with self._store.write() as tx:
            old, now = _get(tx, id), self.clock()
            expires_at = None if old.expires_at is None else now + max(0, old.expires_at - old.created_at)
            _check_newest(tx.access.list_tokens(), old, expires_at)
            created = _make_token(old.caller, now, expires_at)
            self._insert(tx, created, by)
        hand_over(created)
        with self._store.write() as tx:
            old, now = _get(tx, id), self.clock()
            ends_at = now + round(overlap_seconds * 1_000_000)
            tx.access.expire_token(id, ends_at)
            expiring = old._replace(expires_at=ends_at if old.expires_at is None else min(old.expires_at, ends_at))
            record_change(tx, AuditedChange("token", id, _describe(old), _describe(expiring)), by, now)
            tx.settings.note_access_change()
        return created

    def _insert(self, tx: Tx, created: NewToken, by: Sender | None) -> None:
        token = created.token
        tx.access.insert_token(token)
        record_change(tx, AuditedChange("token", token.id, None, _describe(token)), by, token.created_at)
        tx.settings.note_access_change()

    def revoke(self, id: str, by: Sender | None = None) -> StoredToken:
        """Delete a token, and return it; every hub refuses it within seconds.

        Raises:
            RecordNotFound: there is no such token.
        """
        with self._store.write() as tx:
            old = _get(tx, id)
            tx.access.delete_token(id)
            record_change(tx, AuditedChange("token", id, _describe(old), None), by, self.clock())
            tx.settings.note_access_change()
        return old

    def list(self) -> Sequence[StoredToken]:
        """Return all tokens, in the order in which they were created, expired ones too."""
        with self._store.read() as tx:
            return tx.access.list_tokens()

    def count_valid(self, caller: Caller) -> int:
        """Return how many tokens of *caller* are valid now."""
        now = self.clock()
        return sum(each.caller == caller and each.is_valid(now) for each in self.list())

    def replace_known(self, tokens: Sequence[StoredToken]) -> None:
        """Replace all known tokens by *tokens*."""
        before, known = self._known, dict[bytes, KnownToken]()
        for each in tokens:
            found = known[each.digest] = before.get(each.digest) or KnownToken(each)
            found.replace(each)
        self._known = known
        gone = {digest: each for digest, each in before.items() if digest not in known}
        for token in gone.values():
            token.expires_at = 0
        revoked = self._revoked | {digest: token.stored.id for digest, token in gone.items()}
        self._revoked = dict(list(revoked.items())[-REVOKED_MAX:])

    @property
    def known(self) -> Sequence[StoredToken]:
        """The tokens that `find` finds, expired ones too."""
        return [each.stored for each in self._known.values()]

    def find(self, secret: bytes) -> KnownToken | None:
        """Return the token with a *secret*, which is used now; None if there is none, or it has expired.

        It is looked up by its digest: how long that takes says nothing about the secrets of other tokens.
        """
        found, now = self._known.get(hashlib.sha256(secret).digest()), self.clock()
        if found is None or not now < found.expires_at:
            return None
        found.used_at = now
        return found

    def explain(self, secret: bytes) -> Unauthenticated:
        """Return why `find` does not find *secret*, with the id of its token if that is known: for the log alone.

        A token that was revoked before this process began, or long ago, is unknown.
        """
        digest = hashlib.sha256(secret).digest()
        if (known := self._known.get(digest)) is not None:
            return Unauthenticated(reason="token expired", token=known.stored.id)
        if (revoked := self._revoked.get(digest)) is not None:
            return Unauthenticated(reason="token revoked", token=revoked)
        return Unauthenticated(reason="token unknown")

    def note_uses(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Record the uses since the last record, if that is `USE_INTERVAL` ago.

        Raises:
            DatabaseUnavailable: they are recorded next time.
        """
        if monotonic() - self._noted_at < USE_INTERVAL:
            return
        used = [(each, at) for each in self._known.values() if (at := each.used_at) != each.noted_at]
        if not used:
            return
        self._noted_at = monotonic()
        with self._store.write() as tx:
            tx.access.note_uses({each.stored.id: at for each, at in used})
        for each, at in used:
            each.noted_at = at


def describe_token(token: StoredToken) -> dict[str, str | None]:
    """Return a token as commands and HTTP show it: nothing that its secret could be found by."""
    return {**_describe(token), "used_at": None if token.used_at is None else format_time(token.used_at)}


def _get(tx: Tx, id: str) -> StoredToken:
    """Return a token; raise RecordNotFound if there is none."""
    for each in tx.access.list_tokens():
        if each.id == id:
            return each
    raise RecordNotFound.of("token-not-found", token=id)


def _check_newest(tokens: Sequence[StoredToken], old: StoredToken, expires_at: int | None) -> None:
    """Raise TokenSuperseded if the caller of *old* has a newer token that is valid after *expires_at*."""
    if expires_at is None:
        return
    for each in tokens:
        is_newer = each.caller == old.caller and each.created_at > old.created_at
        if is_newer and (each.expires_at is None or each.expires_at > expires_at):
            raise TokenSuperseded(token=old.id, newer=each.id)


def _describe(token: StoredToken) -> Mapping[str, str | None]:
    """Return what anybody may know of a token: nothing that its secret could be found by."""
    return {
        "id": token.id,
        "caller": str(token.caller),
        "created_at": format_time(token.created_at),
        "expires_at": None if token.expires_at is None else format_time(token.expires_at),
    }


def _make_token(caller: Caller, now: int, expires_at: int | None) -> NewToken:
    secret = PREFIX + token_urlsafe(_SECRET_BYTES)
    digest = hashlib.sha256(secret.encode("ascii")).digest()
    return NewToken(StoredToken(token_hex(6), digest, caller, now, expires_at, None), secret)
