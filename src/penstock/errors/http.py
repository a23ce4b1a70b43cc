"""Errors of HTTP itself: requests that the hub cannot read, and servers that a client cannot reach or understand."""

from typing import ClassVar

from penstock.errors.root import Case, Invalid, NotFound, PenstockError, TooLarge, Unavailable


class MalformedRequest(Invalid):
    """A request breaks the syntax of HTTP/1.1 (RFC 9112), or did not arrive in time, or its events are malformed."""

    code = "malformed-request"
    message = "the request is no valid HTTP/1.1: {reason}"
    hint = "Correct the client, or the proxy between it and the hub."
    cases: ClassVar = {
        "malformed-batch": Case("Error occurred when parsing event(s). Event {line}: {reason}"),
        "request-too-slow": Case(
            "the {part} of the request did not arrive within {timeout_seconds} seconds",
            "Repeat the request over a faster connection, or in smaller parts.",
        ),
    }

    part: str | None
    """Headers or body, in `request-too-slow`."""
    timeout_seconds: float | None
    """The limit in `request-too-slow`."""
    reason: str | None
    """What is wrong, in the other cases."""
    line: int | None
    """Number of the malformed event, from 1, in `malformed-batch`; None if the array itself is malformed."""


class RequestTooLarge(TooLarge):
    """A part of a request exceeds a limit of the hub."""

    code = "request-too-large"
    cases: ClassVar = {
        "target-too-long": Case(
            "the request target is longer than {limit} bytes", "Name fewer partitions in one request."
        ),
        "headers-too-large": Case(
            "the request headers are larger than {limit} bytes", "Send fewer or shorter headers."
        ),
        "body-too-large": Case(
            "the request body is larger than {limit} bytes", "Split the content over several requests."
        ),
        "too-many-events": Case(
            "the request body has more than {limit} events", "Split the events over several requests."
        ),
    }

    limit: int
    """In bytes; in `too-many-events` the number of events."""


class UnsupportedFormat(Invalid):
    """The hub cannot read the format of a request or a schema, or cannot send the format that the request accepts."""

    code = "unsupported-format"
    cases: ClassVar = {
        "unsupported-media-type": Case("the hub does not read {given} here; use {allowed}"),
        "not-acceptable": Case(
            "Accept is {accept!r}, but the answer has only these types: {allowed}",
            "Name one of these types in Accept, or omit the header.",
        ),
        "arrow-not-installed": Case(
            "Accept is {accept!r}, but this hub runs without PyArrow and sends only: {allowed}",
            "Run pip install 'penstock-hub[arrow]' where the hub runs and restart it, or name one of these types in "
            "Accept.",
        ),
        "encoding-refused": Case(
            "{method} method doesn't support {encoding} content encoding",
            "Omit the header Content-Encoding. Only bodies of POST may be compressed, with gzip or zstd.",
        ),
    }

    accept: str | None
    """The header Accept, if the hub cannot send that."""
    given: str | None
    """The form of the request, in `unsupported-media-type`."""
    allowed: str | None
    """The media types of this answer, or of such a request; None in `encoding-refused`."""
    method: str | None
    """The method in `encoding-refused`."""
    encoding: str | None
    """The encoding in `encoding-refused`."""


class ConsoleNotFound(NotFound):
    """The hub serves no console, or no such file of it."""

    code = "console-off"
    message = "this hub serves no console"
    hint = "Start it with `penstock serve --console`, or an application with HubApp(console=True)."
    cases: ClassVar = {
        "console-file-not-found": Case(
            "the console has no file {path!r}", "Reload the page: the hub may have been replaced meanwhile."
        )
    }

    path: str | None
    """The file in `console-file-not-found`."""


class Unreachable(Unavailable):
    """The client could not connect to the server, or to the proxy before it. Nothing was sent."""

    code = "unreachable"
    message = "{url} cannot be reached: {reason}"
    hint = "Check the address, and that the hub is running."
    cases: ClassVar = {
        "certificate-untrusted": Case(
            "{url} has a certificate that this machine does not trust: {reason}",
            "If an authority of your own has signed it, name the authority's file in SSL_CERT_FILE.",
        ),
        "proxy-unreachable": Case(
            "{url} cannot be reached through the proxy {proxy} that {variable} names: {reason}",
            "Correct or unset the variable, or name the server's host in NO_PROXY to connect to it directly.",
        ),
    }

    url: str
    reason: str
    proxy: str | None
    """The proxy in `proxy-unreachable`."""
    variable: str | None
    """The environment variable that names the proxy, in `proxy-unreachable`."""


class ConnectionLost(Unavailable):
    """The connection broke or timed out before the answer was complete."""

    code = "connection-lost"
    message = "the connection to {url} was lost before the answer was complete: {reason}"
    hint = "Read again from the last cursor. The client does so itself until `retry_timeout` has passed."

    url: str
    reason: str


class ServerError(PenstockError):
    """A server answered with an error that is no problem of a Penstock hub."""

    code = "server-error"
    message = "{url} answered {status}: {body}"
    hint = "The answer comes from that server, or from a proxy before it."

    status: int
    url: str
    body: str
    """The beginning of the body of the answer."""


class WrongAddress(ServerError):
    """The server at this address is neither a hub nor a feed."""

    code = "wrong-address"
    message = "no {wanted} answers at {url}, but another server with status {status}: {body}"
    hint = "Check scheme, host, port and path. Open the address in a browser to see which server answers."

    wanted: str
    """The expected server: a Penstock hub or a feed."""


class MalformedAnswer(PenstockError):
    """The answer of a server breaks its protocol."""

    code = "malformed-answer"
    message = "{url} gave an unusable answer: {reason}"
    hint = "Check the address: another server may answer there, or a proxy in between may have changed the answer."

    url: str
    reason: str
