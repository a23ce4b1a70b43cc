"""Counts the files and functions of Penstock that one request enters: `.venv/bin/python scripts/count_files.py`.

With `--list` it names them. The hub runs on SQLite in this process, and the requests go to the ASGI application,
without the HTTP server. Each request is sent once to warm up and then several times more. A function counts if every
repetition calls it, in any thread; so a background thread that works at the same time does not count.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import structlog

import penstock
from penstock.server import HubApp
from penstock.testing.factories import an_event, an_event_type

PACKAGE = str(Path(penstock.__file__).parent)
LINE = json.dumps({"data": an_event()}).encode() + b"\n"
REPETITIONS = 5


class Entered(NamedTuple):
    """A function of the package, and how often it was called."""

    file: str
    function: str


Calls = Counter[Entered]
Headers = Mapping[str, str]


class Profile:
    """Records the calls of functions of the package, in all threads that begin after it."""

    def __init__(self) -> None:
        self.calls: Calls | None = None
        """None while nothing is recorded."""

    def install(self) -> None:
        """Observe this thread and all that are started from now on."""
        threading.setprofile(self._observe)
        sys.setprofile(self._observe)

    def _observe(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self.calls is not None and frame.f_code.co_filename.startswith(PACKAGE):
            code = frame.f_code
            self.calls[Entered(code.co_filename.removeprefix(PACKAGE)[1:], code.co_qualname)] += 1

    async def record(self, request: Callable[[], Awaitable[Any]]) -> Calls:
        """Return the calls that every repetition of *request* makes, with their smallest number."""
        await request()
        common: Calls | None = None
        for _ in range(REPETITIONS):
            self.calls = Counter()
            await request()
            found, self.calls = self.calls, None
            common = found if common is None else common & found
        assert common is not None
        return common


class Http:
    """Sends requests to an ASGI application."""

    def __init__(self, app: HubApp) -> None:
        self._app = app
        self.headers: dict[str, str] = {}
        """The headers of the last answer."""

    async def send(
        self, method: str, target: str, body: bytes = b"", headers: Headers | None = None, *, lines_max: int = 0
    ) -> bytes:
        """Send a request, and return the body of the answer; leave after *lines_max* lines of it, if that is not 0.

        Raises:
            RuntimeError: the answer is an error.
        """
        path, _, query = target.partition("?")
        given = {"host": "localhost", "user-agent": "penstock", "accept": "*/*", "content-length": str(len(body))}
        given |= headers or {}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        incoming = iter([{"type": "http.request", "body": body}])
        status, received, self.headers = 0, [], {}
        leaves: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def receive() -> dict[str, Any]:
            for message in incoming:
                return message
            await leaves
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            else:
                received.append(message.get("body", b""))
                if lines_max and b"".join(received).count(b"\n") >= lines_max and not leaves.done():
                    leaves.set_result(None)

        await self._app(scope, receive, send)
        answer = b"".join(received)
        if status >= 400:
            raise RuntimeError(f"{method} {target}: {status} {answer.decode()}")
        return answer


async def measure(profile: Profile) -> Mapping[str, Calls]:
    """Return the calls of each kind of request."""
    async with _hub() as http:
        await http.send("POST", "/event-types", json.dumps(an_event_type("order.placed")).encode())
        found = {
            "POST /feeds/{event_type}, one event": await profile.record(
                lambda: http.send("POST", "/feeds/order.placed", LINE)
            ),
            "GET /feeds/{event_type}, one page": await profile.record(
                lambda: http.send("GET", "/feeds/order.placed?n=1&cursor0=_first")
            ),
        }
        commits = await _cursors(http)
        found["POST /subscriptions/{subscription}/cursors, one cursor"] = await profile.record(lambda: anext(commits))
        return found


async def _cursors(http: Http) -> AsyncIterator[None]:
    """Return an iterator each step of which commits the next cursor of a stream."""
    wanted = {"owning_application": "shop", "event_types": ["order.placed"], "read_from": "begin"}
    created = json.loads(await http.send("POST", "/subscriptions", json.dumps(wanted).encode()))
    path = f"/subscriptions/{created['id']}"
    count = REPETITIONS + 1
    streamed = await http.send("GET", f"{path}/events?batch_limit=1", lines_max=count)
    stream = {"x-nakadi-streamid": http.headers["x-nakadi-streamid"]}
    cursors = [json.loads(line)["cursor"] for line in streamed.splitlines()]

    async def commit() -> AsyncIterator[None]:
        for cursor in cursors:
            await http.send("POST", f"{path}/cursors", json.dumps({"items": [cursor]}).encode(), stream)
            yield

    return commit()


@asynccontextmanager
async def _hub() -> AsyncIterator[Http]:
    with tempfile.TemporaryDirectory() as folder:
        app = HubApp(f"sqlite:///{folder}/hub.db")
        async with app.lifespan():
            yield Http(app)


def report(found: Mapping[str, Calls], *, lists: bool) -> Iterator[str]:
    """Yield lines that say how many files and functions each request enters; with *lists* also which."""
    for request, calls in found.items():
        files = {entered.file for entered in calls}
        yield f"{request}: {len(files)} files, {len(calls)} functions, {calls.total()} calls"
        for file in sorted(files) if lists else ():
            yield f"    {file}"
            for each in sorted(each for each in calls if each.file == file):
                yield f"        {each.function}{f' ({calls[each]} times)' if calls[each] > 1 else ''}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the files, and the functions of each")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    profile = Profile()
    profile.install()
    lines = report(asyncio.run(measure(profile)), lists=options.list)
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
