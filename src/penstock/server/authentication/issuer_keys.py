"""The public keys that an issuer signs JSON Web Tokens with, loaded and kept up to date by a thread of their own.

The keys are a JSON Web Key Set (RFC 7517), from a file or from an address. They stay valid while the issuer cannot be
reached, for `KEPT_SECONDS_MAX`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec
import structlog

from penstock.core.hosts import is_this_machine
from penstock.errors import RequirementMissing

REFRESH_INTERVAL: Final = 300.0
"""Seconds between two loads from an address. A key that the issuer has withdrawn is accepted until the next one."""
FILE_INTERVAL: Final = 10.0
"""The same for a file."""
RETRY_INTERVAL: Final = 10.0
"""Seconds between two loads while they fail, and the least between two that tokens with unknown keys cause."""
KEPT_SECONDS_MAX: Final = 86_400.0
"""Keys stay valid this long after the last load that succeeded."""
LOAD_TIMEOUT: Final = 5.0
"""Seconds that a load may take in all, discovery included."""
DOCUMENT_BYTES_MAX: Final = 256 << 10
KEYS_MAX: Final = 100
CANDIDATES_MAX: Final = 4
"""The most keys that one token is checked with."""
RSA_BITS: Final = range(2048, 8193)
"""Shorter moduli are not secure (RFC 7518, 3.3); to check with longer ones would hold up the event loop."""
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

_CHARS_MAX: Final = {"n": 1366, "e": 8, "x": 44, "y": 44}
"""Base64url characters of the numbers of a key."""
_log: Final = structlog.get_logger("penstock.authentication")


class KeysUnavailable(Exception):
    """The keys could not be loaded; the text gives the reason."""


class KeySet(NamedTuple):
    """The keys of one load that can verify a token."""

    keys: Sequence[tuple[str | None, str, Any]]
    """Key id (`kid`), algorithm, and key of PyJWT."""
    document: bytes

    def find(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        """Return the keys that may have signed a token with this header; without a key id all of the algorithm."""
        fitting = [key for own, other, key in self.keys if other == algorithm and key_id in (None, own)]
        return fitting[:CANDIDATES_MAX]


class IssuerKeys:
    """The keys of one issuer.

    Args:
        load: returns a JSON Web Key Set, or raises KeysUnavailable. It is called in a thread.
        source: names where the keys come from, for the log.
        interval: seconds between two loads.
    """

    def __init__(
        self,
        load: Callable[[], bytes],
        source: str,
        interval: float = REFRESH_INTERVAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: KeySet | None = None
        """The keys that are valid; None before the first load, and after `KEPT_SECONDS_MAX` without one."""
        self._load = load
        self._source = source
        self._interval = interval
        self._monotonic = monotonic
        self._confirmed_at = self._loaded_at = float("-inf")
        self._made_at = monotonic()
        self._failure: str | None = None
        self._changed: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._awaited: Future[None] | None = None
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def failure(self) -> str | None:
        """Why the last load failed; None if it succeeded."""
        return self._failure

    def measure_age(self) -> float:
        """Return how many seconds ago the keys were loaded last; if never, how old this object is."""
        return self._monotonic() - max(self._confirmed_at, self._made_at)

    def start(self, changed: Callable[[], object]) -> None:
        """Begin to load the keys, in a thread, which calls *changed* after each load of other keys."""
        self._changed = changed
        self._awaited = Future()
        self._thread = threading.Thread(target=self._run, name="penstock-keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, once a load that is under way has ended; do not wait for it."""
        self._closed = True
        self._wake.set()

    def request_load(self) -> "Future[None] | None":
        """Load the keys at once; return a future that is done once they are loaded.

        Return None if they were loaded less than `RETRY_INTERVAL` ago: nothing that clients send causes more loads.
        """
        with self._lock:
            if self._awaited is None:
                if self._monotonic() - self._loaded_at < RETRY_INTERVAL:
                    return None
                self._awaited = Future()
                self._wake.set()
            return self._awaited

    def load(self) -> None:
        """Load the keys now; after a failure the last ones stay valid for `KEPT_SECONDS_MAX`."""
        try:
            document = self._load()
            if self.current is None or document != self.current.document:
                self.current = parse_keys(document)
                _log.info("keys loaded", source=self._source, keys=len(self.current.keys))
                self._changed()
            self._confirmed_at = self._monotonic()
            failure = None
        except KeysUnavailable as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - The thread has to go on, and to log the error.
            failure = f"{type(error).__name__}: {error}"
        if failure is not None and self._monotonic() - self._confirmed_at > KEPT_SECONDS_MAX:
            self.current = None
        if failure is not None and failure != self._failure:
            _log.warning("keys cannot be loaded", source=self._source, reason=failure, kept=self.current is not None)
        self._failure = failure

    def _run(self) -> None:
        while not self._closed:
            self.load()
            with self._lock:
                awaited, self._awaited = self._awaited, None
                self._loaded_at = self._monotonic()
                self._wake.clear()
            if awaited is not None:
                awaited.set_result(None)
            if not self._closed:
                self._wake.wait(self._interval if self._failure is None else min(RETRY_INTERVAL, self._interval))


def keys_of(issuer: str, source: str | None) -> IssuerKeys:
    """Return the keys of *issuer*, not loaded yet.

    *source* is the address or the file of its key set. None: the issuer's configuration names the address (OpenID
    Connect Discovery 1.0).

    Raises:
        ValueError: an address is not `https://`, or `http://` on this machine.
        RequirementMissing: PyJWT is not installed; the extra `jwt` brings it.
    """
    require_pyjwt()
    if source is not None and "://" not in source:
        path = Path(source)
        return IssuerKeys(lambda: _read(path), source, FILE_INTERVAL)
    if source is not None:
        check_address(source)
        return IssuerKeys(lambda: _load(_fetch(source)), source)
    check_address(issuer)
    return IssuerKeys(lambda: _load(_discover(issuer)), issuer.rstrip("/") + DISCOVERY_PATH)


def require_pyjwt() -> Any:
    """Return the module `jwt` of PyJWT.

    Raises:
        RequirementMissing: it is not installed, or cryptography is not.
    """
    try:
        import cryptography  # noqa: F401
        import jwt
    except ModuleNotFoundError as error:
        install = "install it: pip install 'penstock-hub[jwt]'"
        needed = "PyJWT with cryptography, to check JSON Web Tokens,"
        raise RequirementMissing(needed=needed, found="none", install=install) from error
    return jwt


def check_address(url: str) -> None:
    """Raise ValueError if others could answer in place of the issuer at *url*."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and is_this_machine(parts.hostname or "")
    if not parts.hostname or parts.username is not None or not (parts.scheme == "https" or is_local):
        raise ValueError(f"{url!r} must be https://, or http:// on this machine: else others could replace the keys")


def parse_keys(document: bytes) -> KeySet:
    """Return the keys of a JSON Web Key Set that can verify RS256, ES256 or EdDSA; others are skipped.

    The algorithm of a key follows from its type, never from a token. Private members are not read.

    Raises:
        KeysUnavailable: it is no key set, or has more than `KEYS_MAX` keys.
    """
    try:
        described = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KeysUnavailable(f"it is not a JSON Web Key Set: {error}") from None
    if len(described) > KEYS_MAX:
        raise KeysUnavailable(f"it has {len(described)} keys; at most {KEYS_MAX} are read")
    keys: list[tuple[str | None, str, Any]] = []
    for number, each in enumerate(described):
        try:
            keys.append((each.get("kid"), *_parse_key(each)))
        except (ValueError, TypeError) as error:
            _log.info("key skipped", kid=str(each.get("kid"))[:80], number=number, reason=str(error)[:500])
    if not keys:
        _log.warning("no key can verify RS256, ES256 or EdDSA", keys=len(described))
    return KeySet(keys, document)


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


_SHAPES: Final[Mapping[tuple[str, str | None], tuple[str, tuple[str, ...]]]] = {
    ("RSA", None): ("RS256", ("n", "e")),
    ("EC", "P-256"): ("ES256", ("x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", ("x",)),
}
"""By type (`kty`) and curve (`crv`): the algorithm, and the numbers of a public key."""


_SECRET_MEMBERS: Final = frozenset({"d", "k"})
"""The members of private and of symmetric keys (RFC 7518, 6.2.2, 6.3.2 and 6.4; RFC 8037, 2)."""


def _parse_key(described: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the algorithm of a JSON Web Key, and the key as PyJWT has it. Raises: ValueError: it is of no use here."""
    kind, curve, key_id = (described.get(name) for name in ("kty", "crv", "kid"))
    if not (isinstance(kind, str) and isinstance(curve, str | None) and isinstance(key_id, str | None)):
        raise ValueError("kty, crv or kid is not a string")
    if (kind, curve) not in _SHAPES:
        raise ValueError(f"keys of type {kind} {curve or ''} are not used")
    algorithm, members = _SHAPES[kind, curve]
    if described.get("alg", algorithm) != algorithm:
        raise ValueError(f"it is for {described['alg']}, not for {algorithm}")
    if described.get("use", "sig") != "sig" or "verify" not in described.get("key_ops", ("verify",)):
        raise ValueError("it is not for signatures")
    numbers = {name: described.get(name) for name in members}
    if any(not isinstance(each, str) or len(each) > _CHARS_MAX[name] for name, each in numbers.items()):
        raise ValueError("a number of it is missing or too long")
    public = {"kty": kind, **numbers} if curve is None else {"kty": kind, "crv": curve, **numbers}
    jwt = require_pyjwt()
    try:
        key = jwt.PyJWK(public, algorithm)
    except jwt.PyJWTError as error:
        raise ValueError(str(error)) from error
    if kind == "RSA" and key.key.key_size not in RSA_BITS:
        raise ValueError(f"it has {key.key.key_size} bits; {RSA_BITS[0]} to {RSA_BITS[-1]} are allowed")
    return algorithm, key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            document = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise KeysUnavailable(f"the file cannot be read: {error.strerror}") from None
    _check_size(document)
    if _has_secrets(document):
        raise KeysUnavailable("it has private keys, which a hub never needs: export the public part alone")
    return document


def _has_secrets(document: bytes) -> bool:
    """Return whether *document* has a private or a symmetric key, as a JSON Web Key or in PEM."""
    try:
        keys = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b"PRIVATE KEY-----" in document
    return any(_SECRET_MEMBERS & each.keys() for each in keys)


def _load(fetching: Any) -> bytes:
    """Run a coroutine that fetches a key set, for at most `LOAD_TIMEOUT`."""

    async def run() -> bytes:
        async with asyncio.timeout(LOAD_TIMEOUT):
            document: bytes = await fetching
            return document

    try:
        return asyncio.run(run())
    except TimeoutError:
        raise KeysUnavailable(f"there was no whole answer within {LOAD_TIMEOUT:g} s") from None


async def _discover(issuer: str) -> bytes:
    """Return the key set at the address that the issuer's configuration names (OpenID Connect Discovery 1.0, 4)."""
    try:
        found = msgspec.json.decode(await _fetch(issuer.rstrip("/") + DISCOVERY_PATH), type=_Configuration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KeysUnavailable(f"the issuer's configuration is malformed: {error}") from None
    if found.issuer != issuer:
        raise KeysUnavailable(f"the issuer's configuration is that of {found.issuer[:200]!r}")
    try:
        check_address(found.jwks_uri)
    except ValueError as error:
        raise KeysUnavailable(f"jwks_uri of the issuer's configuration: {error}") from None
    if urlsplit(found.jwks_uri).scheme != "https" and urlsplit(issuer).scheme == "https":
        raise KeysUnavailable(f"jwks_uri of the issuer's configuration is not https: {found.jwks_uri[:200]!r}")
    return await _fetch(found.jwks_uri)


class _Configuration(msgspec.Struct):
    issuer: str
    jwks_uri: str


async def _fetch(url: str) -> bytes:
    """Return the document at *url*; do not follow redirects, and read no more than `DOCUMENT_BYTES_MAX`."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    by_proxy = not is_this_machine(urlsplit(url).hostname or "")
    try:
        async with (
            httpx2.AsyncClient(timeout=None, follow_redirects=False, trust_env=by_proxy) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                location = f" to {answer.headers['location'][:200]!r}" if "location" in answer.headers else ""
                raise KeysUnavailable(f"{url} answers {answer.status_code}{location}; redirects are not followed")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise KeysUnavailable(f"{url} answers with a content encoding, which was not asked for")
            document = bytearray()
            async for piece in answer.aiter_raw():
                document += piece
                _check_size(document)
            return bytes(document)
    except httpx2.HTTPError as error:
        raise KeysUnavailable(f"{url} cannot be read: {str(error) or type(error).__name__}") from None


def _check_size(document: bytes | bytearray) -> None:
    if len(document) > DOCUMENT_BYTES_MAX:
        raise KeysUnavailable(f"it has more than {DOCUMENT_BYTES_MAX >> 10} KiB")
