"""TLS of the server: its certificate, loaded again when the files change, and the certificates of clients.

TLS 1.2 and 1.3, with the ciphers of Python's default context.
"""

import asyncio
import socket
import ssl
import sys
import threading
import time
from calendar import timegm
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import structlog

CHECK_INTERVAL: Final = 5.0
"""Seconds between two looks at the files."""
CLIENT_CERTIFICATE: Final = "penstock.client_certificate"
"""The key of `scope["extensions"]` for the `ClientCertificate` of a connection that has one."""
NameKind = Literal["cn", "dns", "uri", "email"]
"""The names of a certificate: its subject's common name, or one kind of its alternative names (RFC 5280, 4.2.1.6)."""

_KINDS: Final[Mapping[str, NameKind]] = {"commonName": "cn", "DNS": "dns", "URI": "uri", "email": "email"}
_MISMATCHES: Final = ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
_VERSION, _UTC_TIME = 0xA0, 0x17
"""Tags of DER."""
CLIENTS_REFUSE: Final = "clients will refuse the certificate"
_log: Final = structlog.get_logger("penstock.tls")


FAILURE_INTERVAL: Final = 10.0
"""Handshakes that fail for one reason have a line in the log at most once in so many seconds."""
ACCEPT_PAUSE: Final = 1.0
"""Seconds until the next connection is accepted after the system could not accept one."""
_UNTRUSTED: Final = "the client does not trust the certificate of the hub"
_EXPLANATIONS: Final[Mapping[str, str]] = {
    "HTTP_REQUEST": "the client speaks plain HTTP: its address has to begin with https://",
    "CERTIFICATE_VERIFY_FAILED": "the certificate of the client is refused",
    "TLSV1_ALERT_UNKNOWN_CA": _UNTRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _UNTRUSTED,
}
"""By the reasons of OpenSSL: what they mean at a server."""


class TlsFilesUnusable(Exception):
    """A certificate, a key or the authorities of clients cannot be used; says which, and why."""

    def __init__(self, reason: str, hint: str = "Files of TLS are in PEM, and readable for the hub.") -> None:
        """State the fault, and by *hint* its remedy."""
        super().__init__(reason)
        self.hint = hint


class TlsFiles(NamedTuple):
    """The files of a server's TLS, in PEM."""

    certificate: Path
    """The certificate, and after it those that lead to its authority."""
    key: Path
    client_ca: Path | None = None
    """The authorities of clients; None: clients are not asked for certificates."""


class ServerTls:
    """The TLS context of a server, which follows its files.

    Connections that are made after a change have the new certificate, and their clients are checked against the new
    authorities. While the files are unusable, such as between the writing of one and of the other, the last ones hold.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Load *files*.

        Raises:
            TlsFilesUnusable: one cannot be read, or they do not fit each other.
        """
        self._files = files
        self._seen = self._look()
        self._loaded = _load(files)
        self.context = self._loaded.context
        """The context to listen with."""
        self.context.sni_callback = self._use_newest
        self._failure = ""
        self._closed = threading.Event()

    @property
    def expires_at(self) -> float:
        """When the server's certificate expires, in seconds since 1970."""
        return self._loaded.validity.ends_at

    def find_fault(self) -> str | None:
        """Return what clients refuse the certificate for, by the clock of this machine; None if it is valid now."""
        return find_fault(self._files.certificate, self._loaded.validity)

    def measure_seconds_left(self) -> float:
        """Return for how many seconds the certificate is still valid; less than 0 once it has expired."""
        return self.expires_at - time.time()

    def start(self) -> None:
        """Begin to look at the files every `CHECK_INTERVAL`, in a thread."""
        threading.Thread(target=self._run, name="penstock-tls", daemon=True).start()

    def close(self) -> None:
        """Look at the files no more."""
        self._closed.set()

    def reload(self) -> bool:
        """Load the files again if they have changed; return whether that was done."""
        seen = self._look()
        if seen == self._seen:
            return False
        try:
            self._loaded = _load(self._files)
        except TlsFilesUnusable as error:
            if str(error) != self._failure:
                self._failure = str(error)
                _log.error("certificate not loaded", reason=self._failure)
            return False
        self._seen, self._failure = seen, ""
        _log.info("certificate loaded", expires_at=_format(self.expires_at))
        if (fault := self.find_fault()) is not None:
            _log.warning(CLIENTS_REFUSE, reason=fault)
        return True

    def _run(self) -> None:
        while not self._closed.wait(CHECK_INTERVAL):
            self.reload()

    def _look(self) -> tuple[object, ...]:
        """Return a value that differs after a change of one of the files, or of the file that a link names."""
        return tuple(_state_of(path) for path in self._files if path is not None)

    def _use_newest(self, connection: ssl.SSLObject | ssl.SSLSocket, *_: Any) -> None:
        """Have a connection that is being made use the newest context; OpenSSL calls it for each one."""
        connection.context = self._loaded.context


class Validity(NamedTuple):
    """When a certificate is valid, in seconds since 1970."""

    begins_at: float
    ends_at: float

    def format_end(self) -> str:
        """Return when it ends, in ISO 8601."""
        return _format(self.ends_at)


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    validity: Validity


class HandshakeLog:
    """Logs why TLS handshakes fail: the first of each reason at once, further ones together, every `FAILURE_INTERVAL`.

    A client that closes the connection before it has sent anything, as some health checks do, is no failure.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[float, int]] = {}
        """By reason: when it was logged last, and the failures since."""

    def note(self, error: ssl.SSLError, address: str) -> None:
        """Note that *error* has ended the handshake of a client at *address*."""
        found = error.reason or "UNKNOWN"
        reason = f"{_EXPLANATIONS[found]} ({found})" if found in _EXPLANATIONS else found
        if isinstance(error, ssl.SSLCertVerificationError):
            reason += f": {error.verify_message}"
        now, (logged_at, count) = self._monotonic(), self._seen.get(reason, (-FAILURE_INTERVAL, 0))
        if now - logged_at < FAILURE_INTERVAL:
            self._seen[reason] = logged_at, count + 1
            return
        self._seen[reason] = now, 0
        _log.info("TLS handshake failed", client=address, reason=reason, failures=count + 1)


class TlsListener:
    """Accepts connections with TLS, and logs failed handshakes, which asyncio's own server does not."""

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        handshake_timeout: float,
        backlog: int,
    ) -> None:
        """Begin to accept connections of *listener*, on the running loop, for protocols of *make_protocol*."""
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._handshake_timeout = handshake_timeout
        self._log = HandshakeLog()
        self._handshakes = set[asyncio.Task[None]]()
        listener.setblocking(False)
        listener.listen(backlog)
        self._accepting = asyncio.ensure_future(self._accept())

    def close(self) -> None:
        """Accept no further connections; handshakes under way go on."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Wait until no further connection is accepted; uvicorn asks every server for that."""
        await asyncio.wait({self._accepting})

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as error:  # Such as too many open files: some may be closed soon.
                _log.error("connection not accepted", reason=str(error))
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            task = loop.create_task(self._shake_hands(connection, address[0]))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_timeout,
            )
        except ssl.SSLError as error:
            self._log.note(error, address)
        except OSError:
            connection.close()  # It is gone, or took too long.


def _format(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _state_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _load(files: TlsFiles) -> _Loaded:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    certificate = _read(files.certificate, "certificate")
    _read(files.key, "key")
    try:
        validity = read_validity(certificate)
        context.load_cert_chain(files.certificate, files.key, _refuse_password)
    except (ssl.SSLError, ValueError) as error:
        names = f"the certificate {files.certificate} with the key {files.key}"
        reason = f"{names} cannot be used: {_explain(error)}"
        if getattr(error, "reason", None) in _MISMATCHES:
            raise TlsFilesUnusable(reason, _describe_pair(files)) from None
        raise TlsFilesUnusable(reason) from None
    if files.client_ca is not None:
        _read(files.client_ca, "file of authorities")
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            reason = f"the authorities of clients in {files.client_ca} cannot be used: {_explain(error)}"
            raise TlsFilesUnusable(reason) from None
        context.verify_mode = ssl.CERT_OPTIONAL
        # An intermediate authority can be trusted without its root. By default that depends on the version of Python.
        context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
        # A session that is resumed would not be checked against new authorities.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return _Loaded(context, validity)


def _read(path: Path, kind: str) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise TlsFilesUnusable(f"the {kind} {path} cannot be read: {error.strerror}") from None


def _refuse_password() -> str:
    raise ValueError("the key is encrypted: store it without a password, readable for the hub alone")


def _explain(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason in _MISMATCHES:
        return "the key is that of another certificate"
    return reason or str(error) or type(error).__name__


def _describe_pair(files: TlsFiles) -> str:
    return (
        f"Name the key that the first certificate in {files.certificate} was made for; the hub's own certificate comes "
        "first there, then those of its authorities. These print the same for a pair:\n"
        f"  openssl x509 -noout -pubkey -in {files.certificate}\n"
        f"  openssl pkey -pubout -in {files.key}"
    )


def read_certificate(path: Path) -> Validity:
    """Return when the certificate in the file *path* is valid.

    Raises:
        TlsFilesUnusable: it cannot be read, or has no certificate.
    """
    try:
        return read_validity(_read(path, "certificate"))
    except ValueError as error:
        raise TlsFilesUnusable(f"the certificate {path} cannot be used: {error}") from None


def find_fault(path: Path, validity: Validity) -> str | None:
    """Return the reason for which clients refuse the certificate at *path* by this clock; None if it is valid."""
    now = time.time()
    if now < validity.begins_at:
        return f"the certificate {path} is not valid before {_format(validity.begins_at)}"
    if now >= validity.ends_at:
        return f"the certificate {path} has expired: it was valid until {validity.format_end()}"
    return None


def read_validity(pem: str) -> Validity:
    """Return when the first certificate in *pem* is valid (RFC 5280, 4.1).

    Raises:
        ValueError: there is no certificate.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = pem.partition(begin)
    body, ends, _ = rest.partition(end)
    if not found or not ends:
        raise ValueError("there is no certificate in PEM")
    try:
        der = ssl.PEM_cert_to_DER_cert(begin + body + end)
        signed = _elements(_elements(der)[0][1])[0][1]
        parts = [content for tag, content in _elements(signed) if tag != _VERSION]
        first, last = _elements(parts[3])  # After the serial number, the algorithm and the issuer: the validity.
        return Validity(_parse_time(*first), _parse_time(*last))
    except (IndexError, ValueError) as error:
        raise ValueError(f"the certificate is malformed: {error}") from None


def _parse_time(tag: int, text: bytes) -> float:
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return timegm(time.strptime(digits, "%Y%m%d%H%M%SZ"))


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Return the tags and contents of a sequence's elements, in DER."""
    found, at = [], 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(der[at : at + size])
            at += size
        found.append((tag, der[at : at + length]))
        at += length
    return found


def has_all(transport: asyncio.Transport) -> bool:
    """Return whether the client has received all that was written, as far as the system tells.

    The bytes below TLS are not seen by *transport*; the system counts those that the client has not acknowledged.
    """
    if transport.get_write_buffer_size():
        return False
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:  # It is gone, as after a handshake that has failed.
        return True
    import fcntl
    import termios

    try:
        unacknowledged = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return True
    return not any(unacknowledged)


class ClientCertificate(NamedTuple):
    """The certificate by which a client has identified itself; an authority of the server has signed it."""

    names: Mapping[NameKind, tuple[str, ...]]
    expires_at: float


def client_certificate_of(connection: ssl.SSLObject | None) -> ClientCertificate | None:
    """Return the certificate of the client at the other end of *connection*; None if it has sent none."""
    found: Mapping[str, Any] | None = connection.getpeercert() if connection is not None else None
    if not found:
        return None
    names: dict[NameKind, tuple[str, ...]] = {}
    given = [pair for parts in found.get("subject", ()) for pair in parts] + list(found.get("subjectAltName", ()))
    for name, value in given:
        if name in _KINDS:
            names[_KINDS[name]] = (*names.get(_KINDS[name], ()), value)
    return ClientCertificate(names, ssl.cert_time_to_seconds(found["notAfter"]))
