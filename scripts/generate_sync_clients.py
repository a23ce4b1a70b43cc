"""Writes the synchronous clients from the asynchronous ones: `.venv/bin/python scripts/generate_sync_clients.py`.

The package `unasync` does not suffice: it leaves docstrings and comments as they are, and these are documentation that
names classes and methods. This script renames by token, as `unasync` does, and by word in docstrings and comments. Ruff
then sorts the imports, merges what has become equal, removes needless `noqa` comments, and formats.

Where threads and tasks truly differ, one module written by hand holds both forms, whose names differ in the prefix
`Async` or `async_` only: `concurrency.py` (sleeping, closing, cancelling), `http/reading.py` (ending a read that
runs elsewhere), and `producers/turns.py` (locks, cancellation).
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = "src/penstock/client"

SOURCES = (
    "async_client.py",
    "http/async_transport.py",
    "log/async_feed.py",
    "log/async_cursor_table.py",
    "producers/async_producer.py",
    "subscriptions/async_stream.py",
)
"""The asynchronous modules to translate, in `src/penstock/client`. Each is written beside itself, without `async_`."""

NAMES = {
    "AsyncAPI": "AsyncAPI",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
    "check_async_cancel": "check_cancel",
}
"""Names that are not formed by the prefix `Async`, `async_` or `ASYNC_`."""

PHRASES = {
    "End the iteration at once, from another task too.": (
        "End the iteration. May be called from another thread or a signal handler: a running request is completed.\n\n"
        "        A request takes at most `wait` seconds if the server respects it.\n        "
    ),
    '>>> import asyncio\n    >>> asyncio.run(AsyncFeed("http://shop/feed", partition_count=4, version=1).cursors())': (
        '>>> Feed("http://shop/feed", partition_count=4, version=1).cursors()'
    ),
    "    async with AsyncIdempotentProducer(": "    with IdempotentProducer(",
    "await client.": "client.",
    "await producer.": "producer.",
    "A cancellation such as `asyncio.timeout`": "An interruption such as Ctrl-C",
    "an async iterator": "an iterator",
    "an asynchronous HTTP client": "a synchronous HTTP client",
    "an asynchronous": "a synchronous",
    "An asynchronous": "A synchronous",
    "The asynchronous": "The synchronous",
    ", which may be asynchronous": "",
    "one task at a time": "one thread at a time",
    "several tasks too": "several threads too",
    "Several tasks": "Several threads",
    "from another task": "from another thread",
    "from other tasks": "from other threads",
    "\n    A cancellation takes effect at once and loses no events: they are sent again.": "",
    (
        "\n    A task that is cancelled while it publishes waits up to `cancel_grace_seconds` for the response"
        " to the batch in\n    flight; then it ends as cancelled. Events and batches know afterwards whether they are"
        " published.\n"
    ): "",
    "An `asyncio.Event`, or anyio's,": "A `threading.Event`",
    "an AsyncIdempotentProducer is made": "an IdempotentProducer is made",
    "an IdempotentProducer is made": "an AsyncIdempotentProducer is made",
    "a `psycopg.AsyncConnection`": "a `sqlite3` or `psycopg` connection",
    ", for asyncio.": ".",
}
"""Words of docstrings, comments and other strings that differ beyond the names."""

_WORD = re.compile("|".join([*map(re.escape, sorted(PHRASES, key=len, reverse=True)), r"\b_?[A-Za-z]\w*\b"]))
_ARTICLE = re.compile(r"\b([Aa])n (?=`?Async[B-DF-HJ-NP-TV-Z])")


def target(source: str) -> str:
    """Return the path of the module that is generated from *source*; both in the client's folder.

    >>> target("log/async_feed.py")
    'log/feed.py'
    """
    return source.replace("async_", "")


def render(source: str) -> str:
    """Return the text of the module that is generated from *source*, a path in the client's folder."""
    text = (ROOT / CLIENT / source).read_text(encoding="utf-8")
    head = f"# Generated from {Path(source).name} by scripts/generate_sync_clients.py: do not edit.\n"
    path = ROOT / CLIENT / target(source)
    return _ruff(path, _ruff(path, head + translate(text), "check", "--fix-only"), "format")


def translate(text: str) -> str:
    """Return the synchronous form of the asynchronous Python source *text*.

    >>> print(translate("async def show(http: AsyncHttp) -> Awaitable[int]: return await http.aget(1)  # AsyncHttp"))
    def show(http: Http) -> int: return http.aget(1)  # Http
    """
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    parts, end = [], 0
    for begin, after, replacement in _edits(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        at, until = (begins[line - 1] + column for line, column in (begin, after))
        parts += [text[end:at], replacement]
        end = until
    return "".join([*parts, text[end:]])


def _edits(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Yield where to replace what, in order: begin, end, replacement."""
    closing: list[bool] = []  # For each open bracket, whether it is one of `Awaitable[…]`, which goes.
    for position, token in enumerate(tokens):
        following = tokens[min(position + 1, len(tokens) - 1)]
        if token.type == tokenize.NAME and token.string in {"async", "await"}:
            yield token.start, following.start, ""
        elif token.type == tokenize.NAME and token.string == "Awaitable" and following.string == "[":
            yield token.start, token.end, ""
        elif token.type == tokenize.OP and token.string == "[":
            closing.append(tokens[position - 1].string == "Awaitable")
            if closing[-1]:
                yield token.start, token.end, ""
        elif token.type == tokenize.OP and token.string == "]":
            if closing.pop():
                yield token.start, token.end, ""
        elif token.type == tokenize.NAME:
            yield token.start, token.end, _renamed(token.string)
        elif token.type in {tokenize.STRING, tokenize.COMMENT}:
            yield token.start, token.end, _reworded(token.string)


def _renamed(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    return re.sub(r"^(_?)(?:Async(?=[A-Z])|async_|ASYNC_)", r"\1", name)


def _reworded(text: str) -> str:
    if text.startswith("# noqa: ASYNC"):
        return ""
    return _WORD.sub(lambda found: PHRASES.get(found[0], _renamed(found[0])), _ARTICLE.sub(r"\1 ", text))


def _ruff(path: Path, text: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True, cwd=ROOT).stdout


def main() -> None:
    """Write all generated modules."""
    for source in SOURCES:
        (ROOT / CLIENT / target(source)).write_text(render(source), encoding="utf-8")


if __name__ == "__main__":
    main()
