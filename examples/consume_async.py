"""Follows two feeds in one asyncio program: `python examples/consume_async.py HUB order.placed order.paid`."""

import asyncio
import sys

from penstock.client import AsyncClient


async def follow(hub: AsyncClient, event_type: str) -> None:
    async with hub.feed(event_type).follow() as pages:
        async for page in pages:
            for event in page.events:
                print(event_type, event.raw.decode(), flush=True)


async def main(url: str, *event_types: str) -> None:
    async with AsyncClient(url) as hub, asyncio.TaskGroup() as tasks:
        for event_type in event_types:
            tasks.create_task(follow(hub, event_type))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
