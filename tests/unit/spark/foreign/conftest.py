from collections.abc import Iterator

import pytest

from tests.unit.spark.foreign.nakadi_server import NakadiServer, nakadi_server


@pytest.fixture
def nakadi() -> Iterator[NakadiServer]:
    with nakadi_server() as told:
        yield told
