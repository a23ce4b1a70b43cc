"""A greedy caller does not keep a modest one from its share of the hub."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.testing.live_hub import live_hub
from tests.served import client_of, create

GREEDY_CONNECTIONS = 200
MODEST_CONNECTIONS = 16
SECONDS = 1.0
LARGE_SECONDS = 5.0
"""A large batch is written in about a quarter of a second."""
ATTEMPTS = 5
"""Other programs can have the processor while one of the clients needs it."""


class Served(NamedTuple):
    """How many requests of each caller were answered in the same time."""

    greedy: int
    modest: int

    @property
    def share(self) -> float:
        """The modest caller's part of all."""
        return self.modest / (self.greedy + self.modest)


async def send_again_and_again(port: int, address: str, request: bytes, counts: dict[str, int]) -> None:
    """Send *request* on one connection from *address*, each time that the one before is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), limit=1 << 26)
    try:
        while True:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if length:
                await reader.readexactly(int(length))
            else:
                await reader.readuntil(b"\r\n0\r\n\r\n")
            counts[address] += 1
    finally:
        writer.transport.abort()  # `close` would wait until a large request is sent, longer than the loop runs.


async def count_served(
    port: int, greedy_request: bytes, modest_request: bytes, greedy_connections: int, seconds: float = SECONDS
) -> Served:
    """Have both callers send for some seconds, and count what is answered once both do."""
    greedy, modest = "127.0.0.2", "127.0.0.3"
    counts = {greedy: 0, modest: 0}
    callers = [(greedy, greedy_request)] * greedy_connections + [(modest, modest_request)] * MODEST_CONNECTIONS
    clients = [asyncio.ensure_future(send_again_and_again(port, *each, counts)) for each in callers]
    try:
        await asyncio.wait(clients, timeout=seconds / 2, return_when=asyncio.FIRST_COMPLETED)
        before = dict(counts)
        await asyncio.wait(clients, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return Served(counts[greedy] - before[greedy], counts[modest] - before[modest])
    finally:
        for each in clients:
            each.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


@pytest.mark.parametrize("kind", ["publishes", pytest.param("reads", marks=pytest.mark.exhaustive)])
def test_caller_with_many_connections_leaves_one_with_few_half_of_an_equal_share(kind: str, tmp_path: Path) -> None:
    options = ["--limit", "requests=100000"]
    with (
        live_hub(f"sqlite:///{tmp_path}/hub.db", log=tmp_path / "hub.log", options=options) as hub,
        client_of(hub) as http,
    ):
        feed = create(http)
        feed.publish_ids(range(500))
        line = b'{"data":{"id":1}}\n'
        head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (feed.path.encode(), len(line))
        request = {
            "publishes": head + line,
            "reads": b"GET /event-types/%s/partitions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % feed.name.encode(),
        }[kind]

        found = []
        for _ in range(ATTEMPTS):
            found.append(asyncio.run(count_served(hub.port, request, request, GREEDY_CONNECTIONS)))
            if found[-1].share > 1 / 4:
                return
        pytest.fail(f"the modest caller has had {[round(each.share, 2) for each in found]} of the hub: {found}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["batches", "pages"])
def test_caller_with_large_requests_leaves_another_half_of_its_speed(kind: str, tmp_path: Path) -> None:
    options = ["--limit", "requests=100000", "--limit", "bytes-in=none", "--limit", "bytes-out=none"]
    with (
        live_hub(f"sqlite:///{tmp_path}/hub.db", log=tmp_path / "hub.log", options=options) as hub,
        client_of(hub) as http,
    ):
        feed, large = create(http), create(http)
        large.publish_ids(range(50_000))
        send = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        line, lines = b'{"data":{"id":1}}\n', (b'{"data":{"id":1,"text":"%s"}}\n' % (b"x" * 360)) * 20_000
        modest = send % (feed.path.encode(), len(line)) + line
        greedy = {
            "batches": send % (large.path.encode(), len(lines)) + lines,
            "pages": b"GET %s?n=1&cursor0=_first&pagesizehint=50000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            % large.path.encode(),
        }[kind]

        found = []
        for _ in range(ATTEMPTS):
            alone = asyncio.run(count_served(hub.port, greedy, modest, 0, LARGE_SECONDS))
            beside = asyncio.run(count_served(hub.port, greedy, modest, 8, LARGE_SECONDS))
            found.append(beside.modest / alone.modest)
            if found[-1] > 1 / 2 and beside.greedy:
                return
        pytest.fail(f"beside large {kind} the modest caller has kept {found} of its speed")
