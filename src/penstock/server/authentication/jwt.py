"""JSON Web Tokens (RFC 7519), as OpenID Connect and OAuth 2.0 issuers sign them (RFC 9068): `Authorization: Bearer …`.

The rules are those of RFC 8725 (best current practices). A signature is checked once, and the token is then remembered
until it expires or the keys change.
"""

import asyncio
import math
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Scope

from penstock.core.access import Caller, is_caller_name
from penstock.errors import HubUnavailable, Unauthenticated
from penstock.hub.hub import Hub
from penstock.server.authentication.authentication import bearer_of
from penstock.server.authentication.issuer_keys import IssuerKeys, KeySet, require_pyjwt
from penstock.server.http.requests import CREDENTIAL

TOKEN_BYTES_MAX: Final = 8 << 10
NESTING_MAX: Final = 16
"""Lists and objects within each other, in the header and in the claims of a token."""
LEEWAY_SECONDS: Final = 30.0
"""The clocks of the issuer and of the hub may differ by so much."""
KEYS_TIMEOUT: Final = 2.0
"""A request whose token names an unknown key waits this long for the issuer's newest keys."""
REMEMBERED_MAX: Final = 4_000
"""So many tokens are remembered, at most 32 MiB; then all are forgotten."""

_TYPES: Final = frozenset({"jwt", "at+jwt"})
"""Allowed in the header `typ`, which may be absent: other types, such as logout tokens, are no credentials here."""
_TIME_MAX: Final = 253_402_300_800
"""The year 10000: later times may not even fit into a float."""
_REQUIRED: Final = ("exp", "iss", "aud")
_JSON_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("service", "services", "app", "application", "client"), "service"),
    **dict.fromkeys(("user", "users", "employee", "employees", "customer", "customers"), "user"),
}
"""Types of callers, by the value of the claim that has them: without slashes, in small letters."""


class CallerClaims(NamedTuple):
    """The claims that name the caller, and its type."""

    names: Sequence[str] = ("sub",)
    """The first one that a token has is the caller's name."""
    type: str = "service"
    """`service` or `user`: all callers are of this type. Else the name of the claim that says so, such as `realm`."""

    def find_caller(self, claims: Mapping[str, Any]) -> Caller:
        """Return the caller that *claims* name.

        Raises:
            Unauthenticated: they name none.

        >>> claims = CallerClaims(("managed-id", "sub"), "realm")
        >>> claims.find_caller({"sub": "f3a1", "managed-id": "jane", "realm": "/employees"})
        Attribute(data_type='user', value='jane')
        """
        name = next((each for each in self.names if each in claims), None)
        if name is None:
            raise Unauthenticated(reason=f"it has no claim {' or '.join(self.names)}")
        value = claims[name]
        if not isinstance(value, str) or not is_caller_name(value):
            raise Unauthenticated(reason=f"its claim {name} is no name of a caller")
        if self.type in ("service", "user"):
            return Caller(self.type, value)
        given = claims.get(self.type)
        role = _ROLES.get(given.strip("/").lower()) if isinstance(given, str) else None
        if role is None:
            raise Unauthenticated(reason=f"its claim {self.type} says neither service nor user")
        return Caller(role, value)


class _Verified(NamedTuple):
    """A token whose signature and claims were right."""

    caller: Caller
    expires_at: float
    keys: KeySet
    """The keys that were valid then."""


class JwtMethod:
    """Identifies callers by JSON Web Tokens of one issuer.

    It accepts RS256, ES256 and EdDSA, each with keys of its own type alone. A token has to name the issuer and one of
    *audiences*, and has to expire. Keys that a token carries or links (`jwk`, `jku`, `x5c`, `x5u`) are ignored.

    Args:
        issuer: the claim `iss`.
        audiences: names of this hub, of which the claim `aud` must have one.
        keys: the issuer's keys, which start and close with the method.
        caller: the claims that name the caller.
    """

    name = "jwt"

    def __init__(
        self,
        issuer: str,
        audiences: Sequence[str],
        keys: IssuerKeys,
        caller: CallerClaims = CallerClaims(),  # noqa: B008 - It is immutable.
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raise RequirementMissing if PyJWT is not installed; the extra `jwt` brings it."""
        self._jwt = require_pyjwt()
        self._issuer = issuer
        self._audiences = list(audiences)
        self._keys = keys
        self._claims = caller
        self._clock = clock
        self._verified: dict[bytes | None, _Verified] = {}
        """By the header."""

    def start(self, hub: Hub) -> None:
        """Begin to load the keys. When they change, readers that wait for events check their tokens again."""
        self._keys.start(hub.log.watch.wake_all)

    def identify(self, scope: Scope) -> Caller | Coroutine[None, None, Caller] | None:
        """Return the caller that the token of a request names; None if it has no JSON Web Token.

        It returns a coroutine only where it waits for the issuer's keys.

        Raises:
            Unauthenticated: the token is not valid; the field `reason` says why.
            HubUnavailable: there are no keys to check it with, or perhaps not the newest ones.
        """
        credential = scope.get(CREDENTIAL)
        verified = self._verified.get(credential)
        if verified is not None:
            if verified.keys is self._keys.current and self._clock() < verified.expires_at:
                return verified.caller
            self._verified.pop(credential, None)
        token = bearer_of(scope)
        if token is None or token.count(b".") != 2:
            return None
        if len(token) > TOKEN_BYTES_MAX:
            raise Unauthenticated(reason=f"it has more than {TOKEN_BYTES_MAX >> 10} KiB")
        key_id, algorithm = _read_header(token)
        keys = self._keys.current
        fitting = keys.find(key_id, algorithm) if keys is not None else ()
        if keys is not None and fitting:
            return self._verify(scope, token, keys, fitting)
        awaited = self._keys.request_load()
        if awaited is not None:
            return self._identify_after(awaited, scope, token, key_id, algorithm)
        raise self._refuse_unknown(key_id)

    def measure_keys_age(self) -> float:
        """Return how many seconds ago the keys were loaded last."""
        return self._keys.measure_age()

    def close(self) -> None:
        """Load no more keys."""
        self._keys.close()

    async def _identify_after(
        self, awaited: "Future[None]", scope: Scope, token: bytes, key_id: str | None, algorithm: str
    ) -> Caller:
        await asyncio.wait({asyncio.wrap_future(awaited)}, timeout=KEYS_TIMEOUT)
        keys = self._keys.current
        fitting = keys.find(key_id, algorithm) if keys is not None else ()
        if keys is None or not fitting:
            raise self._refuse_unknown(key_id, was_loaded=awaited.done())
        return self._verify(scope, token, keys, fitting)

    def _refuse_unknown(self, key_id: str | None, *, was_loaded: bool = True) -> Exception:
        """Return the error for a token whose key is unknown: the token is at fault only if the keys are up to date."""
        if self._keys.current is None or self._keys.failure is not None or not was_loaded:
            return HubUnavailable.of("keys-unavailable", retry_after=math.ceil(KEYS_TIMEOUT))
        return Unauthenticated(reason=f"no key of the issuer has the id {(key_id or '')[:80]!r} and fits the algorithm")

    def _verify(self, scope: Scope, token: bytes, keys: KeySet, fitting: Sequence[Any]) -> Caller:
        """Return the caller of the token in *scope* that one of the keys *fitting* has signed, and remember it."""
        claims = self._check(token, fitting)
        expires_at = claims["exp"]
        if type(expires_at) not in (int, float) or not expires_at < _TIME_MAX:
            raise Unauthenticated(reason="its claim exp is not a time")
        if "cnf" in claims:
            raise Unauthenticated(reason="it is bound to a key of its owner (cnf), which is not checked here")
        caller = self._claims.find_caller(claims)
        if len(self._verified) >= REMEMBERED_MAX:
            self._verified.clear()
        self._verified[scope[CREDENTIAL]] = _Verified(caller, expires_at + LEEWAY_SECONDS, keys)
        return caller

    def _check(self, token: bytes, fitting: Sequence[Any]) -> Mapping[str, Any]:
        jwt = self._jwt
        for key in fitting:
            try:
                claims: Mapping[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=[key.algorithm_name],
                    audience=self._audiences,
                    issuer=self._issuer,
                    leeway=LEEWAY_SECONDS,
                    options={"require": _REQUIRED},
                )
            except jwt.InvalidSignatureError as error:
                refused = Unauthenticated(reason=str(error))
            except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
                raise Unauthenticated(reason=f"{type(error).__name__}: {str(error)[:200]}") from None
            else:
                return claims
        raise refused


def _read_header(token: bytes) -> tuple[str | None, str]:
    """Return the key id and the algorithm that the header of *token* names; nothing else of it is used.

    Raises:
        Unauthenticated: it is malformed, or of another kind than the hub accepts.
    """
    header, claims, _ = token.split(b".")
    for each in (header, claims):
        _check_nesting(_decode_part(each))
    try:
        found = msgspec.json.decode(_decode_part(header), type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unauthenticated(reason=f"its header is malformed: {str(error)[:200]}") from None
    if found.crit is not msgspec.UNSET:
        raise Unauthenticated(reason="its header has extensions that have to be understood (crit)")
    if found.typ is not None and found.typ.lower().removeprefix("application/") not in _TYPES:
        raise Unauthenticated(reason=f"it is of the type {found.typ[:80]!r}")
    return found.kid, found.alg


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str | None = None
    crit: Any = msgspec.UNSET


def _decode_part(part: bytes) -> bytes:
    try:
        return urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except ValueError as error:
        raise Unauthenticated(reason=f"it is not base64url: {error}") from None


def _check_nesting(text: bytes) -> None:
    """Refuse JSON with more than `NESTING_MAX` lists and objects within each other, before anything parses it."""
    if text.count(b"[") + text.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    for bracket in _JSON_STRING.sub(b"", text).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > NESTING_MAX:
            raise Unauthenticated(reason=f"it has more than {NESTING_MAX} lists or objects within each other")
