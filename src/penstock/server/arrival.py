"""What holds for every request, whatever it asks for: its flow id, its path, how its body may be encoded."""

import os
import re
from typing import Final, NamedTuple

from starlette.types import Scope

from penstock.errors import BadParameter, EncodingRefused, PenstockError
from penstock.wire.query import shown

FLOW_ID_CHARS_MAX: Final = 128
_FLOW_ID: Final = re.compile(rb"[!-~](?:[ -~]{0,%d}[!-~])?" % (FLOW_ID_CHARS_MAX - 2))


class Arrival(NamedTuple):
    """A request as it is dealt with."""

    scope: Scope
    """With the path that its route goes by: a slash at the end says nothing."""
    flow_id: str
    """By which the logs of all who have a part in one piece of work are put together."""
    refusal: PenstockError | None
    """Why it is refused, whatever it asks for."""
    closes: bool
    """True where the connection has to be closed after the answer: some servers read the body of a request that offers
    an upgrade as another request."""


def arrived(scope: Scope) -> Arrival:
    """Look at a request as every one is looked at (digest of Nakadi's contract, 0.2 and 0.3)."""
    flow_id = encoding = None
    offers_upgrade = has_body = False
    for name, value in scope["headers"]:
        if name == b"x-flow-id":
            flow_id = flow_id or value
        elif name == b"content-encoding":
            encoding = value
        elif name == b"upgrade":
            offers_upgrade = True
        elif name in (b"content-length", b"transfer-encoding"):
            has_body = True
    path: str = scope["path"]
    if len(path) > 1 and path[-1] == "/" and len(path) > len(scope.get("root_path", "")) + 1:
        scope = {**scope, "path": path[:-1]}
    refusal = _refusal(scope["method"], path, encoding)
    return Arrival(scope, _flow_id(flow_id), refusal, closes=offers_upgrade and has_body)


def _flow_id(given: bytes | None) -> str:
    """Return the flow id that a request brings; one of 24 letters and digits where it has none that can be shown."""
    if given is not None and _FLOW_ID.fullmatch(given):
        return given.decode("ascii")
    return os.urandom(12).hex()


def _refusal(method: str, path: str, encoding: bytes | None) -> PenstockError | None:
    if "//" in path:
        return BadParameter(parameter="path", value=shown(path), allowed="one without //")
    if encoding is not None and method != "POST":
        return EncodingRefused(method=method, encoding=shown(encoding.decode("latin-1")))
    return None
