"""Credentials that clients send: tokens, from memory or from a file that is followed.

They are authentication objects of httpx (https://www.python-httpx.org/advanced/authentication/), so they also fit a
user's own client: `httpx2.Client(auth=TokenFile("billing.token"))`.
"""

import os
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import httpx2

from penstock.core.hosts import is_this_machine
from penstock.errors import BadParameter

_UNAUTHORIZED: Final = 401
_AUTHORIZATION: Final = "Authorization"
TOKEN_BYTES_MAX: Final = 16 << 10


class InsecureTransportWarning(UserWarning):
    """A token is sent in clear text, to another machine: see `warnings.filterwarnings` to ignore it."""


class BearerToken(httpx2.Auth):
    """Sends a token as `Authorization: Bearer …` (RFC 6750). Its text is in no `repr` and no error.

    >>> BearerToken("pst_secret")
    BearerToken(…)
    """

    def __init__(self, token: str) -> None:
        """Raise BadParameter if *token* cannot stand in a header."""
        self._header = f"Bearer {check_token(token, 'auth')}"

    def __repr__(self) -> str:
        return "BearerToken(…)"

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send *request* with the token."""
        _warn_of_clear_text(request.url)
        request.headers[_AUTHORIZATION] = self._header
        yield request


class TokenFile(httpx2.Auth):
    """Sends the token in a file, and reads the file again when it has changed.

    So a token can be rotated while a client runs: write the new one into the file before the old one expires. A request
    that is answered 401 is sent once more if the file has another token by then.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raise BadParameter if the file cannot be read or has no token."""
        self.path: Final = Path(path)
        """The file."""
        self._seen: tuple[int, int, int] | None = None
        self._token = ""
        self.read()

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"

    def read(self) -> str:
        """Return the token that the file has now.

        Raises:
            BadParameter: the file cannot be read, or has no token; the last token is kept for requests.
        """
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen != self._seen:
                with self.path.open("rb") as file:
                    text = file.read(TOKEN_BYTES_MAX + 1)
                self._token = check_token(text.decode("ascii", "replace").strip(), str(self.path))
                self._seen = seen
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise BadParameter(f"the token file {self.path} cannot be read: {reason}", parameter="auth") from None
        return self._token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send *request* with the token of the file, and again if it is refused and the file has another one."""
        _warn_of_clear_text(request.url)
        sent = self._read_or_keep()
        request.headers[_AUTHORIZATION] = f"Bearer {sent}"
        response = yield request
        if response.status_code == _UNAUTHORIZED and (now := self._read_or_keep()) != sent:
            request.headers[_AUTHORIZATION] = f"Bearer {now}"
            yield request

    def _read_or_keep(self) -> str:
        try:
            return self.read()
        except BadParameter:  # Somebody is writing it, or its folder is away for a moment.
            return self._token


def _warn_of_clear_text(url: httpx2.URL) -> None:
    """Warn, once for each server, if what is sent to *url* can be read on the network."""
    if url.scheme == "http" and not is_this_machine(url.host):
        server = f"http://{url.netloc.decode('ascii')}"
        text = f"a token is sent to {server} in clear text; begin the address with https://, if the server has TLS"
        warnings.warn(text, InsecureTransportWarning, stacklevel=1)


def check_token(token: Any, parameter: str) -> str:
    """Return *token* if it can stand in a header.

    Raises:
        BadParameter: it cannot; the error does not show it.
    """
    if not isinstance(token, str) or not token or len(token) > TOKEN_BYTES_MAX or not _is_visible(token):
        detail = f"{parameter}: a token is one word of visible ASCII characters; this is none, and is not shown"
        raise BadParameter(detail, parameter=parameter, allowed="a token such as `penstock token create` prints")
    return token


def _is_visible(text: str) -> bool:
    return all("!" <= each <= "~" for each in text)


def make_auth(auth: Any) -> Any:
    """Return *auth* as httpx takes it: a text is a bearer token."""
    return BearerToken(auth) if isinstance(auth, str) else auth
