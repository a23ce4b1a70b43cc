from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing import FeedSource, FileSource, Filtered, Inline, IterableSource, Local, PeriodicSource


@pytest.mark.parametrize(
    "source",
    [
        lambda path: FileSource(path, stream=["k"]),
        lambda _: IterableSource([]),
        lambda _: PeriodicSource(list, 60),
        lambda _: FeedSource("http://localhost:1", "order.placed"),
        lambda _: Filtered(IterableSource([])),
    ],
    ids=["file", "iterable", "periodic", "feed", "filtered"],
)
def test_a_source_that_a_processor_has_closed_is_not_begun_with_again(
    source: Callable[[str], Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text("")
    made = source(f"{path}")
    for runner in (Inline, Local):
        runner(lambda *_: None, made)
    made.close()

    for runner in (Inline, Local):
        with pytest.raises(BadParameter, match=r"source is 'a (\w+Source|Filtered)'; allowed: one that is not closed"):
            runner(lambda *_: None, made)
