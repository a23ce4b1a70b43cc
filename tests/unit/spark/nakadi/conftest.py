from collections.abc import Iterator

import pytest

from tests.unit.spark.nakadi.serving import Serving, serving


@pytest.fixture
def nakadi() -> Iterator[Serving]:
    with serving() as told:
        yield told
