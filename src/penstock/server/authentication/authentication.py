"""Authentication: identifies the caller of each request by the methods that the operator has chosen."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NoReturn, Protocol, runtime_checkable

from starlette.types import Scope

from penstock.core.access import Caller
from penstock.errors import TooManyRequests, Unauthenticated
from penstock.hub.hub import Hub
from penstock.server.http.requests import CREDENTIAL
from penstock.server.limits import find_network
from penstock.server.telemetry import note_reason

FREE_FAILURES: Final = 10
"""So many invalid credentials of one address are answered at once; later ones one after the other."""
FAILURE_INTERVAL: Final = 0.5
"""Seconds between the answers to further ones; one failure is forgotten in this time."""
WAIT_MAX: Final = 5.0
"""An answer that would have to wait for longer is 429 at once."""
ADDRESSES_MAX: Final = 10_000
CALLER: Final = "penstock.caller"
"""The scope's key for the caller that was found."""
_BEARER: Final = b"bearer "


class Method(Protocol):
    """A method of authentication."""

    @property
    def name(self) -> str:
        """The name of the method, as in `penstock serve --auth`."""

    def start(self, hub: Hub) -> None:
        """Begin to identify the callers of *hub*."""

    def identify(self, scope: Scope) -> Caller | Coroutine[None, None, Caller] | None:
        """Return the sender of a request; None if it has no credential of this kind.

        It runs on the event loop, repeatedly for a request that lasts. It returns a coroutine if it has to wait for
        another server, such as for newer keys: the credential is not valid by the cached ones.

        Raises:
            Unauthenticated: the credential is not valid. Its fields are for the access log alone.
        """

    def close(self) -> None:
        """Release the resources of the method."""


@runtime_checkable
class MethodWithKeys(Method, Protocol):
    """A method that verifies credentials with the keys of an issuer."""

    def measure_keys_age(self) -> float:
        """Return how many seconds ago the keys were loaded last."""


def bearer_of(scope: Scope) -> bytes | None:
    """Return the bearer token of a request (RFC 6750, 2.1); None if there is none.

    >>> bearer_of({CREDENTIAL: b"Bearer pst_1"})
    b'pst_1'
    """
    value: bytes | None = scope.get(CREDENTIAL)
    if value is None or value[: len(_BEARER)].lower() != _BEARER:
        return None
    return value[len(_BEARER) :].strip()


def address_of(scope: Scope) -> str:
    """Return the address of the client of a request; empty if it is unknown."""
    client = scope.get("client")
    return client[0] if client else ""


class Authentication:
    """Identifies callers by several methods, and slows down clients that guess credentials."""

    def __init__(self, methods: Sequence[Method]) -> None:
        """Ask *methods* in this order.

        Raises:
            ValueError: there are none.
        """
        if not methods:
            raise ValueError("there has to be a method of authentication")
        self._methods = methods
        self._failures = FailureLimiter()

    @property
    def names(self) -> Sequence[str]:
        """The names of the methods, in the order in which they are asked."""
        return [each.name for each in self._methods]

    def start(self, hub: Hub) -> None:
        """Begin to identify the callers of *hub*."""
        for each in self._methods:
            each.start(hub)

    def authenticate(self, scope: Scope) -> Caller | Coroutine[None, None, Caller]:
        """Return the sender of a request, and keep it in *scope*; or a coroutine that does so, or refuses the request.

        Raises:
            Unauthenticated: of the coroutine: there is no credential, or it is not valid. Addresses that have sent many
                which never were wait for it.
            TooManyRequests: of the coroutine: too many wait already.
        """
        try:
            for method in self._methods:
                found = method.identify(scope)
                if isinstance(found, Caller):
                    scope[CALLER] = found
                    return found
                if found is not None:
                    return self._wait_for(scope, found)
        except Unauthenticated as error:
            return self._refuse(scope, error)
        return self._refuse(scope, None)

    async def _wait_for(self, scope: Scope, awaited: Coroutine[None, None, Caller]) -> Caller:
        try:
            caller = scope[CALLER] = await awaited
        except Unauthenticated as error:
            return await self._refuse(scope, error)
        return caller

    async def _refuse(self, scope: Scope, error: Unauthenticated | None) -> NoReturn:
        """Refuse a request whose credential is not valid; without an *error* it has none that counts."""
        if error is None:
            is_missing = scope.get(CREDENTIAL) is None
            error = Unauthenticated(reason="no credential" if is_missing else "credential of another kind")
            note_reason(scope, error)
        else:
            note_reason(scope, error)
            if error.token is None:  # A token that has expired or was revoked is no guess, and its reader has to end.
                await self._failures.wait(find_network(address_of(scope)))
        raise Unauthenticated

    def measure_keys_age(self) -> float | None:
        """Return how many seconds ago keys of an issuer were loaded last; None if no method needs any."""
        ages = [each.measure_keys_age() for each in self._methods if isinstance(each, MethodWithKeys)]
        return max(ages, default=None)

    def identify_again(self, scope: Scope) -> Caller:
        """Return the sender of a request that lasts: its credential may have been revoked, or have expired.

        Raises:
            Unauthenticated: it is not valid any longer.
        """
        try:
            for method in self._methods:
                found = method.identify(scope)
                if isinstance(found, Caller):
                    return found
                if found is not None:
                    found.close()
                    break
        except Unauthenticated as error:
            note_reason(scope, error)
        raise Unauthenticated

    def name_method(self, scope: Scope) -> str | None:
        """Return the name of the method that identifies the sender of an admitted request; None if none does now."""
        for method in self._methods:
            found = method.identify(scope)
            if isinstance(found, Caller):
                return method.name
            if found is not None:
                found.close()
                return method.name
        return None

    def close(self) -> None:
        """Release the resources of all methods."""
        for each in self._methods:
            each.close()


class FailureLimiter:
    """Delays answers to addresses, of IPv6 to networks of 64 bits, that have sent many invalid credentials."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Coroutine[None, None, object]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When each address has paid for its failures; those with the oldest failures first."""

    async def wait(self, address: str) -> None:
        """Note a failure of *address*, and wait as long as its failures require.

        Raises:
            TooManyRequests: that would be too long.
        """
        now = self._monotonic()
        free_at = max(self._free_at.pop(address, now), now) + FAILURE_INTERVAL
        seconds = free_at - now - FREE_FAILURES * FAILURE_INTERVAL
        if seconds > WAIT_MAX:
            free_at -= FAILURE_INTERVAL
        self._free_at[address] = free_at
        while len(self._free_at) > ADDRESSES_MAX:
            self._free_at.popitem(last=False)
        if seconds > WAIT_MAX:
            raise TooManyRequests.of("too-many-failures", retry_after=round(seconds - WAIT_MAX) or 1)
        if seconds > 0:
            await self._sleep(seconds)
