"""Errors of HTTP itself: requests that the hub cannot read, and servers that a client cannot reach or understand."""

from penstock.errors.root import Invalid, PenstockError, TooLarge, Unavailable


class MalformedRequest(Invalid):
    """The bytes of a request are no HTTP/1.1 (RFC 9112)."""

    code = "malformed-request"
    message = "the request is no valid HTTP/1.1: {reason}"

    reason: str


class RequestTooSlow(PenstockError):
    """A request's head or body took too long to arrive."""

    code = "request-too-slow"
    message = "the {part} of the request did not arrive within {timeout_seconds} seconds"
    hint = "Send it again over a faster connection, or send less at a time."

    part: str
    """Headers or body."""
    timeout_seconds: float


class TargetTooLong(TooLarge):
    """A request target, path and query, is longer than the limit."""

    code = "target-too-long"
    message = "the request target is longer than {limit} bytes"
    hint = "Ask for fewer partitions at a time."

    limit: int
    """In bytes."""


class HeadersTooLarge(TooLarge):
    """A request's headers are larger than the limit."""

    code = "headers-too-large"
    message = "the headers of the request are larger than {limit} bytes"

    limit: int
    """In bytes."""


class BodyTooLarge(TooLarge):
    """A request body is larger than the limit."""

    code = "body-too-large"
    message = "the body is larger than {limit} bytes"
    hint = "Send it in several requests."

    limit: int
    """In bytes."""


class EncodingRefused(Invalid):
    """A body was announced as encoded with a method that takes none so."""

    code = "encoding-refused"
    message = "{method} method doesn't support {encoding} content encoding"
    hint = "Leave the header Content-Encoding out; a body of POST may be gzip or zstd."

    method: str
    encoding: str


class UnsupportedMediaType(Invalid):
    """A body is in a form that is not spoken here."""

    code = "unsupported-media-type"
    message = "{given} is not spoken here; use {allowed}"

    given: str
    allowed: str


class NotAcceptable(Invalid):
    """The answer has none of the forms that the header Accept names."""

    code = "not-acceptable"
    message = "Accept is {accept!r}, but the answer comes as {allowed} only"
    hint = "Name one of these in Accept, or leave that header out."

    accept: str
    allowed: str
    """The media types that this answer has."""


class ArrowNotInstalled(NotAcceptable):
    """The request asks for Arrow of a hub without PyArrow."""

    code = "arrow-not-installed"
    message = "Accept is {accept!r}, but this hub runs without PyArrow, the extra `arrow`: it sends {allowed} only"
    hint = "Run pip install 'penstock-hub[arrow]' where the hub runs and restart it, or name one of these in Accept."


class HubStopped(Unavailable):
    """The hub is shutting down."""

    code = "hub-stopped"
    message = "the hub is shutting down"


class Unreachable(Unavailable):
    """The server could not be reached: nothing was sent."""

    code = "unreachable"
    message = "{url} cannot be reached: {reason}"
    hint = "Check the address, and that the hub runs."

    url: str
    reason: str


class ProxyUnreachable(Unreachable):
    """The proxy could not be reached, or refused: nothing was sent."""

    code = "proxy-unreachable"
    message = "{url} cannot be reached through the proxy {proxy} that {variable} names: {reason}"
    hint = "Correct or unset the variable, or name the server's host in NO_PROXY: then it is asked directly."

    proxy: str
    variable: str
    """The environment variable that names the proxy."""


class ConnectionLost(Unavailable):
    """The connection broke, or timed out, before the whole answer had come."""

    code = "connection-lost"
    message = "the connection to {url} was lost before the whole answer had come: {reason}"

    url: str
    reason: str


class ServerError(PenstockError):
    """A server answered with an error that is none of ours."""

    code = "server-error"
    message = "{url} answered {status}: {body}"

    status: int
    url: str
    body: str
    """The beginning of the answer."""


class WrongAddress(ServerError):
    """What answers there is neither a hub nor a feed."""

    code = "wrong-address"
    message = "no {wanted} answers at {url}, but something that says {status}: {body}"
    hint = "Check scheme, host, port and path. A browser shows what answers at that address."

    wanted: str
    """What was expected there: a Penstock hub or a feed."""


class MalformedAnswer(PenstockError):
    """A server answered with something that its protocol does not allow."""

    code = "malformed-answer"
    message = "{url} gave an answer that cannot be used: {reason}"
    hint = "Check the address: another server may answer there, or a proxy in between may have changed the answer."

    url: str
    reason: str
