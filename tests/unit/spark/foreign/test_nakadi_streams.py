import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.errors import BadParameter, EventsLost, MalformedAnswer, Unavailable
from penstock.spark.columns import QueryColumn, some_of
from penstock.spark.foreign import nakadi as module
from penstock.spark.foreign.landing import pages_between
from penstock.spark.foreign.nakadi import SCHEMA, UNSAID, LandedCursors, NakadiPartition, NakadiStream
from penstock.spark.foreign.stream import ForeignStreamReader
from tests.unit.spark.foreign.nakadi_server import NakadiServer, line, offset

Run = Callable[..., NakadiStream]
A, B = NakadiPartition("a.b", "0"), NakadiPartition("a.b", "1")


@pytest.fixture
def run(nakadi: NakadiServer, tmp_path: Path) -> Iterator[Run]:
    """Begins a run."""
    begun: list[NakadiStream] = []

    def beginning(**options: Any) -> NakadiStream:
        begun.append(NakadiStream(nakadi.query(landing_location=str(tmp_path), **options)))
        return begun[-1]

    yield beginning
    for each in begun:
        each.close()


def numbers(tmp_path: Path, start: LandedCursors, end: LandedCursors) -> list[str]:
    landed = pages_between(str(tmp_path), start, end)
    batches = [batch for pages in landed for batch in pages.read([QueryColumn("data", False)])]
    return [row["data"] for batch in batches for row in batch.to_pylist()]


def committed(nakadi: NakadiServer) -> list[str]:
    return [body["items"][0]["offset"] for body in nakadi.asked_of("POST", "/cursors")]


def test_intake_commits_landed_cursors_when_the_next_micro_batch_is_requested(
    nakadi: NakadiServer, run: Run, tmp_path: Path
) -> None:
    nakadi.streams = [[line(1, 2), line(2, 1)]]
    intake = run()
    start = intake.begin()
    first = intake.advance(start, 2)
    assert committed(nakadi) == []

    second = intake.advance(first, 2)

    assert committed(nakadi) == [offset(1)]
    assert numbers(tmp_path, start, first) == ['{"n": 0}', '{"n": 1}']
    assert numbers(tmp_path, first, second) == ['{"n": 2}']


def test_micro_batch_that_spark_did_not_take_is_offered_again(nakadi: NakadiServer, run: Run) -> None:
    nakadi.streams = [[line(0, 1), line(1, 1)]]
    intake = run()
    start = intake.begin()

    assert intake.advance(start, 1) == intake.advance(start, 1)


def test_batch_larger_than_the_limit_is_a_micro_batch_of_its_own(
    nakadi: NakadiServer, run: Run, tmp_path: Path
) -> None:
    nakadi.streams = [[line(4, 5), line(5, 1)]]
    intake = run()
    start = intake.begin()

    assert len(numbers(tmp_path, start, intake.advance(start, 2))) == 5


def test_full_page_is_landed_before_the_rest_of_its_micro_batch(
    nakadi: NakadiServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    nakadi.streams = [[line(1, 2), line(2, 1)]]
    intake = run()
    start = intake.begin()
    end = intake.advance(start, 3)

    assert end.page == 2
    assert numbers(tmp_path, start, end) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']


@pytest.mark.parametrize("event", [b"[1]", b'"\xff"'])
def test_event_that_is_not_an_object_is_a_malformed_answer(nakadi: NakadiServer, run: Run, event: bytes) -> None:
    nakadi.streams = [[line(0, 1).replace(b'{"n": 0}', event)]]
    intake = run()

    with pytest.raises(MalformedAnswer, match="an event is no JSON object"):
        intake.advance(intake.begin(), 1)


def test_a_checkpoint_of_another_subscription_is_refused(run: Run) -> None:
    with pytest.raises(BadParameter, match="option subscription is 's'; allowed: other, whose cursors the checkpoint"):
        run().advance(LandedCursors("l", "r", "other", 0, {}), None)


def test_repeated_batch_is_skipped_with_a_warning(
    nakadi: NakadiServer, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.ends = {"0": offset(2)}
    nakadi.streams = [[line(1, 2), line(1, 2), line(2, 1)]]
    intake = run()
    intake.end_now()
    start = intake.begin()

    assert numbers(tmp_path, start, intake.advance(start, 100)) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert f"partition 0 of 'a.b': what ends with {offset(1)} has come again" in caplog.text


def test_run_lands_in_its_own_lane_and_deletes_lanes_of_dead_runs(
    nakadi: NakadiServer, run: Run, tmp_path: Path
) -> None:
    nakadi.streams = [[line(0, 1), line(1, 1)]]
    first = run()
    start = first.begin()
    kept = first.advance(start, 1)
    first.advance(kept, 1)  # Spark does not hear of it.
    first.close()
    nakadi.streams, nakadi.committed = [[line(1, 1), line(2, 1), line(3, 1)]], {"0": offset(0)}
    second = run()

    ends, found = [kept], []
    for _ in range(3):
        ends.append(second.advance(ends[-1], 1))
        second.commit(*ends[-2:])
        found.append(numbers(tmp_path, *ends[-2:]))

    assert ends[1].landing == kept.landing
    assert ends[1].run != kept.run
    assert found == [['{"n": 1}'], ['{"n": 2}'], ['{"n": 3}']]
    assert [path.name for path in (tmp_path / kept.landing).iterdir()] == [ends[1].run]
    assert sorted(path.name for path in (tmp_path / kept.landing / ends[1].run).iterdir()) == [
        "000000000002.arrow",
    ]  # fmt: skip


def test_last_micro_batch_can_be_repeated_in_the_next_run(nakadi: NakadiServer, run: Run, tmp_path: Path) -> None:
    nakadi.streams = [[line(0, 1)]]
    first = run()
    start = first.begin()
    kept = first.advance(start, 1)
    first.close()
    nakadi.streams = [[line(1, 1)]]

    run().advance(kept, 1)

    assert numbers(tmp_path, start, kept) == ['{"n": 0}']


def test_available_now_reads_up_to_the_ends_at_its_start(nakadi: NakadiServer, run: Run, tmp_path: Path) -> None:
    nakadi.ends = {"0": offset(1), "1": offset(0)}
    nakadi.streams = [[line(1, 2), line(2, 1), line(0, 1, partition=1), line(3, 1)]]
    intake = run()
    intake.end_now()
    start = intake.begin()
    end = intake.advance(start, 100)

    assert end.places() == {A: offset(1), B: offset(0)}
    assert len(numbers(tmp_path, start, end)) == 3
    assert intake.advance(end, 100) == end


def test_available_now_does_not_wait_for_partitions_committed_to_their_end(nakadi: NakadiServer, run: Run) -> None:
    nakadi.ends, nakadi.committed = {"0": offset(1), "1": offset(5)}, {"0": offset(-1), "1": offset(5)}
    nakadi.streams = [[line(1, 2)]]
    intake = run()
    intake.end_now()

    assert intake.advance(intake.begin(), 100).places() == {A: offset(1)}


def test_keep_alive_line_advances_the_cursor_to_the_end(nakadi: NakadiServer, run: Run) -> None:
    nakadi.ends = {"0": offset(5)}
    nakadi.streams = [[line(1, 2), line(5)]]
    intake = run()
    intake.end_now()

    assert intake.advance(intake.begin(), 100).places() == {A: offset(5)}


def test_keep_alive_lines_alone_end_no_micro_batch(
    nakadi: NakadiServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.5)
    nakadi.streams = [[line(5)]]
    intake = run()
    start = intake.begin()

    assert intake.advance(start, 100) == start


def test_query_fails_with_the_missing_cursor_when_no_batch_arrives(
    nakadi: NakadiServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    nakadi.ends = {"0": offset(5)}
    intake = run()
    intake.end_now()

    with pytest.raises(Unavailable, match=f"nothing comes, up to {offset(5)} in partition 0 of 'a.b'"):
        intake.advance(intake.begin(), 100)


def test_micro_batch_without_limit_takes_all_available_events(nakadi: NakadiServer, run: Run, tmp_path: Path) -> None:
    nakadi.ends = {"0": offset(1)}
    nakadi.streams = [[line(1, 2), line(2, 1)], [line(2, 1)]]
    intake = run()
    start = intake.begin()
    first = intake.advance(start, None)
    intake.close()
    nakadi.ends, nakadi.committed = {"0": offset(2)}, {"0": offset(1)}
    second = run().advance(first, None)

    assert len(numbers(tmp_path, start, first)) == 2
    assert numbers(tmp_path, first, second) == ['{"n": 2}']


def test_intake_opens_the_next_stream_after_one_ends(
    nakadi: NakadiServer, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nakadi.ends = {"0": offset(1)}
    nakadi.streams = [[], [line(-1, debug="Stream started"), line(0, 1)], [line(1, 1)]]
    intake = run(retry_timeout=30.0)
    intake.end_now()
    start = intake.begin()
    first = intake.advance(start, 100)
    second = intake.advance(first, 100)

    assert numbers(tmp_path, start, first) == ['{"n": 0}']
    assert numbers(tmp_path, first, second) == ['{"n": 1}']
    assert [each.partition("ended: ")[2] for each in caplog.messages if "has ended" in each] == [UNSAID] * 2


def test_events_removed_by_retention_fail_the_query_unless_fail_on_data_loss_is_false(
    nakadi: NakadiServer, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    said = "Stream started; skipped events due to retention time passed, count: 7"
    nakadi.streams = [[line(7, 1, debug=said)]]
    intake = run()
    with pytest.raises(EventsLost, match=r"^7 events of 'a.b', partition 0, can no longer be read: retention has"):
        intake.advance(intake.begin(), 100)

    nakadi.streams = [[line(7, 1, debug=said)]]
    intake = run(fail_on_data_loss=False)
    assert intake.advance(intake.begin(), 1).page == 1
    assert "7 events of 'a.b', partition 0" in caplog.text


@pytest.fixture
def reader(nakadi: NakadiServer, tmp_path: Path) -> ForeignStreamReader:
    options = nakadi.query(landing_location=str(tmp_path))
    return ForeignStreamReader(options, some_of(SCHEMA, SCHEMA))


def read(reader: ForeignStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """Plan and read a micro-batch, as executors do: with a copy."""
    tasks = reader.partitions(start, end)
    copy = pickle.loads(pickle.dumps(reader))
    return [row["data"] for task in tasks for rows in copy.read(InputPartition(task.value)) for row in rows.to_pylist()]


def test_a_query_goes_on_from_micro_batch_to_micro_batch(nakadi: NakadiServer, reader: ForeignStreamReader) -> None:
    nakadi.ends = {"0": offset(4)}
    nakadi.streams = [[line(1, 2), line(2, 1), line(4, 2)]]
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))
    reader.commit(second)
    reader.stop()

    assert (start["page"], start["cursors"]) == (0, {})
    assert first == start | {"page": 1, "cursors": {"a.b": {"0": offset(2)}}}
    assert start.keys() == {"subscription", "landing", "run", "page", "cursors"}
    for begin in (start, reader.initialOffset()):  # Spark has another one made up where it runs the first again.
        assert read(reader, begin, first) == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert read(reader, first, second) == ['{"n": 3}', '{"n": 4}']
    assert [each["items"][0]["offset"] for each in nakadi.asked_of("POST", "/cursors")] == [offset(2), offset(4)]


def test_no_thread_outlives_the_query(nakadi: NakadiServer, reader: ForeignStreamReader) -> None:
    nakadi.streams = [[line(0, 1)]]
    before = threading.active_count()
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    ours = [each for each in threading.enumerate() if each.name == "penstock-nakadi-stream"]
    assert len(ours) == 1

    reader.stop()

    assert not ours[0].is_alive()
    assert threading.active_count() <= before + 1, "the server's own"


def test_unused_stream_reader_stops_without_a_request(nakadi: NakadiServer, reader: ForeignStreamReader) -> None:
    reader.stop()

    assert nakadi.asked == []
