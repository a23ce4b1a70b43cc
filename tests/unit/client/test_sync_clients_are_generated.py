"""The synchronous clients are what scripts/generate_sync_clients.py makes of the asynchronous ones."""

import pytest

from scripts import generate_sync_clients as generator

CLIENT = generator.ROOT / generator.CLIENT


@pytest.mark.parametrize("source", generator.SOURCES)
def test_generated_module_is_up_to_date(source: str) -> None:
    text = (CLIENT / generator.target(source)).read_text(encoding="utf-8")

    stale = f"change {source}, not what is generated from it, then: .venv/bin/python scripts/generate_sync_clients.py"
    assert text == generator.render(source), stale


def test_generated_modules_are_all_listed() -> None:
    generated = {
        path.relative_to(CLIENT).as_posix()
        for path in CLIENT.rglob("*.py")
        if path.read_text(encoding="utf-8").startswith("# Generated from ")
    }

    assert generated == {generator.target(source) for source in generator.SOURCES}


@pytest.mark.parametrize("phrase", generator.PHRASES)
def test_phrase_that_is_replaced_occurs(phrase: str) -> None:
    sources = [(CLIENT / source).read_text(encoding="utf-8") for source in generator.SOURCES]

    assert any(phrase in text for text in sources), f"{phrase!r} occurs nowhere: take it out of PHRASES"


SOURCE = '''\
async def each(feed: "AsyncFeed", call: Callable[[Any], Awaitable[list[int]]]) -> AsyncIterator[int]:
    """Yield what an `AsyncFeed` or an AsyncItem has, unlike Asynchronous."""
    async with feed:
        async for item in feed.aiter_bytes():  # An AsyncItem.
            yield (await item.next())[0]
'''
TRANSLATION = '''\
def each(feed: "Feed", call: Callable[[Any], list[int]]) -> Iterator[int]:
    """Yield what a `Feed` or an Item has, unlike Asynchronous."""
    with feed:
        for item in feed.iter_bytes():  # An Item.
            yield (item.next())[0]
'''


def test_translation_renames_by_token_and_by_word_in_strings() -> None:
    assert generator.translate(SOURCE) == TRANSLATION
