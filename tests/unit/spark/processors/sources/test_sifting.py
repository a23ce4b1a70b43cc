import pickle

import pyarrow as pa
import pytest

from penstock.processing.sources.filtered import Selection
from penstock.spark.processors.sources.filtered import Sift
from penstock.spark.processors.sources.source import Then

EVENTS = pa.RecordBatch.from_pydict(
    {
        "stream": ["a-1", "a-2", "b-1", "a-1", "$own"],
        "kind": ["placed", "placed", "placed", "paid", "placed"],
        "place": [0, 0, 1, 0, 1],
        "offset": [0, 1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("selection", "offsets"),
    [
        (Selection(), [0, 1, 2, 3]),
        (Selection(include_system=True), [0, 1, 2, 3, 4]),
        (Selection(kinds=["placed"]), [0, 1, 2]),
        (Selection(event_types=["a"], except_streams=["-2$"]), [0, 3]),
        (Selection(streams=["nobody"]), []),
    ],
)
def test_pickled_selection_keeps_only_selected_events(selection: Selection, offsets: list[int]) -> None:
    sift = pickle.loads(pickle.dumps(Sift(selection, ("a/0", "b/0"), None)))

    assert sift(EVENTS).column("offset").to_pylist() == offsets


def test_step_after_selection_sees_only_selected_events() -> None:
    counted = Then(lambda events: pa.RecordBatch.from_pydict({"count": [events.num_rows]}), "count long")

    assert Sift(Selection(kinds=["paid"]), ("a/0", "b/0"), counted)(EVENTS).to_pydict() == {"count": [1]}
