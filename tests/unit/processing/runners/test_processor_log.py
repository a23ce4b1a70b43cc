"""Announcements in the log: news of streams, figures, and the end; so many lines of a kind."""

import logging
from typing import Any

import pytest

from penstock.errors import HandlerFailed
from penstock.processing.engine.stream import NEWS_MAX
from penstock.processing.outcomes import Failure, done, retry
from penstock.processing.runners.observer import LogQuota, ProcessorLog
from penstock.processing.stats import Stats
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched


def test_lines_of_a_kind_beyond_the_quota_are_counted() -> None:
    quota = LogQuota(lines_max=2, interval=10.0)

    assert [quota.allows("failing", now) for now in (0.0, 1.0, 2.0, 9.0)] == [True, True, False, False]
    assert quota.allows("parked", 9.0)
    assert quota.take_omitted(9.9) == {}
    assert quota.take_omitted(10.0) == {"failing": 2}
    assert quota.allows("failing", 11.0), "another while has begun"
    assert quota.take_omitted(20.0) == {}, "and is not over yet"
    assert quota.take_omitted(21.0) == {}, "nothing was left out in it"


BROKEN = Failure("ValueError", "no such customer")


def read_log(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.processing"]


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.processing")


def settle(ours: Any, announcing: ProcessorLog, result: Any, now: float) -> None:
    for call in ours.take(100, now):
        ours.settle(call, result, now, 0.0)
    announcing.log_changes(now)


def test_failure_and_recovery_of_a_stream_are_announced_once_each(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine()
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E7")), 0.0)
    for now in (0.0, 10.0, 20.0):
        settle(ours, announcing, BROKEN, now)
    settle(ours, announcing, done(), 100.0)

    assert read_log(caplog) == ["mailer: A0 fails at 7: ValueError: no such customer", "mailer: A0 fails no more"]
    first = caplog.records[0]
    assert (first.levelname, first.processor, first.stream, first.index, first.tag) == (  # type: ignore[attr-defined]
        "WARNING", "mailer", "A0", 7, "ValueError",
    )  # fmt: skip


def test_error_is_announced_in_one_line_without_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(attempts_max=1, exhausted="park")
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E7")), 0.0)
    settle(ours, announcing, Failure("ValueError", "bad\n\x1b[31mline\x00"), 0.0)
    announcing.log_end(ValueError("\r\n"))

    assert read_log(caplog) == [
        r"mailer: A0 fails at 7: ValueError: bad\n\x1b[31mline\x00",
        r"mailer: A0 is parked at 7 after 1 attempts: ValueError: bad\n\x1b[31mline\x00",
        r"mailer has ended: ValueError: \r\n",
    ]


def test_failure_that_is_over_before_a_look_is_announced_too(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine()
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E0")), 0.0)
    [call] = ours.take(1, 0.0)
    ours.settle(call, BROKEN, 0.0, 0.0)
    [call] = ours.take(1, 5.0)
    ours.settle(call, done(), 5.0, 0.0)
    announcing.log_changes(5.0)

    assert read_log(caplog) == ["mailer: A0 fails at 0: ValueError: no such customer", "mailer: A0 fails no more"]


def test_overdue_call_is_announced_as_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(timeout=1.0)
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E0")), 0.0)
    ours.take(1, 0.0)
    ours.mark_overdue(2.0)
    announcing.log_changes(2.0)

    assert read_log(caplog) == ["mailer: A0 fails at 0: timeout: the handler was not done after 1 s"]


def test_stream_that_defers_repeatedly_is_announced_as_stalled(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine()
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E0")), 0.0)
    settle(ours, announcing, retry(1), 0.0)
    assert read_log(caplog) == []
    settle(ours, announcing, retry(1), 1.0)
    settle(ours, announcing, retry(1), 2.0)
    settle(ours, announcing, done(), 3.0)

    assert read_log(caplog) == [
        "mailer: A0 stalls at 0: handled 2 times without getting any further", "mailer: A0 stalls no more",
    ]  # fmt: skip


def test_parked_and_resumed_streams_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(attempts_max=2, exhausted="park")
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(batch(1, things("A0E3")), 0.0)
    settle(ours, announcing, BROKEN, 0.0)
    settle(ours, announcing, BROKEN, 10.0)
    ours.drop("A0")
    announcing.log_changes(11.0)

    assert read_log(caplog) == [
        "mailer: A0 fails at 3: ValueError: no such customer",
        "mailer: A0 is parked at 3 after 2 attempts: ValueError: no such customer",
        "mailer: A0 is parked no more",
    ]


def test_failed_retry_is_announced_as_parked_again(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(attempts_max=1, exhausted="park")
    announcing = ProcessorLog("mailer", ours, LogQuota())
    ours.ingest(page := batch(1, things("A0E3")), 0.0)
    settle(ours, announcing, BROKEN, 0.0)
    announcing.log_changes(1.0)
    for now in (10.0, 20.0):
        ours.retry("A0")
        [asked] = ours.list_replays()
        ours.replay(asked, page, now)
        settle(ours, announcing, BROKEN, now)

    assert read_log(caplog)[1::2] == [
        "mailer: A0 is parked at 3 after 1 attempts: ValueError: no such customer",
        "mailer: A0 is parked again at 3 after 2 attempts: ValueError: no such customer",
        "mailer: A0 is parked again at 3 after 3 attempts: ValueError: no such customer",
    ]


def test_some_of_many_failures_are_named_and_the_others_counted(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(concurrency=100)
    announcing = ProcessorLog("mailer", ours, LogQuota(lines_max=3, interval=60.0))
    ours.ingest(batch(9, things(*(f"S{number}E{number}" for number in range(40)))), 0.0)
    settle(ours, announcing, BROKEN, 0.0)
    assert len(read_log(caplog)) == 3
    announcing.log_changes(60.0)

    assert read_log(caplog)[-1] == "mailer: 37 more streams have begun to fail in the last while"


def test_line_of_figures_tells_activity_and_state(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("mailer", engine())
    announcing = ProcessorLog("mailer", watched.engine, LogQuota())
    watched.engine.ingest(batch(1, things("A0E0", "B0E1")), 0.0)
    announcing.log_figures(before := watched.snapshot, None)
    failing, well = watched.engine.take(2, 0.0)
    watched.engine.settle(failing, BROKEN, 1.0, 1.0)
    watched.engine.settle(well, done(mails=4), 1.0, 0.25)
    watched.now = 31.0
    announcing.log_figures(watched.snapshot, before)

    first, second = caplog.records
    assert first.getMessage() == "mailer: 0 events handled, 2 read ahead, 0 active, 0 failing, 0 stalled"
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    assert second.getMessage().startswith("mailer: 1 events handled, ")
    assert "2 read ahead, 0 active, 1 failing for up to 31 s, 0 stalled, p50 2" in second.getMessage()
    assert second.getMessage().endswith(" ms, mails 4")
    figures = vars(second)
    assert (figures["handled"], figures["failing"], figures["failing_seconds"], figures["counts"]) == (
        1, 1, 31.0, {"mails": 4},
    )  # fmt: skip


def test_statistics_of_the_handler_are_announced_as_they_were_since_the_line_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched("mailer", engine())
    announcing = ProcessorLog("mailer", watched.engine, LogQuota())
    watched.engine.ingest(batch(2, things("A0E0", "B0E1")), 0.0)
    snapshots = [None, watched.snapshot]
    for call, value in zip(watched.engine.take(2, 0.0), (7.0, 100.0), strict=True):
        stats = Stats()
        stats.observe("eur", value)
        stats.set("queue", value)
        watched.engine.settle(call, done(stats=stats), 1.0, 0.25)
        snapshots.append(watched.snapshot)
        announcing.log_figures(snapshots[-1], snapshots[-2])
    announcing.log_figures(watched.snapshot, snapshots[-1])

    first, second, third = read_log(caplog)
    assert first.endswith(", queue 7, eur p50 6.87, p99 6.87")
    assert second.endswith(", queue 100, eur p50 101, p99 101")
    assert third.endswith(", queue 100")


def test_end_is_announced_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    announcing = ProcessorLog("mailer", engine(), LogQuota())
    announcing.log_end(None)
    announcing.log_end(SystemExit(3))
    announcing.log_end(HandlerFailed(stream="S0", index=7, attempts=1, tag="full", reason="the disk is full"))

    stopped, exited, exhausted = read_log(caplog)
    assert (stopped, exited) == ("mailer was stopped", "mailer has ended: SystemExit: 3")
    assert exhausted.startswith("mailer has ended: S0: the event at 7 has failed 1 times")
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "ERROR"]


def test_dropped_news_leave_out_no_stream_that_still_fails(caplog: pytest.LogCaptureFixture) -> None:
    ours = engine(concurrency=1_000)
    announcing = ProcessorLog("mailer", ours, LogQuota(lines_max=1_000))
    ours.ingest(batch(9, things(*(f"S{number}E{number}" for number in range(NEWS_MAX + 50)))), 0.0)
    for call in ours.take(1_000, 0.0):
        ours.settle(call, BROKEN, 0.0, 0.0)
    announcing.log_changes(0.0)
    announcing.log_changes(1.0)

    assert sorted(record.stream for record in caplog.records) == sorted(  # type: ignore[attr-defined]
        f"S{number}" for number in range(NEWS_MAX + 50)
    )


def test_running_round_is_announced_with_its_age(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("scores", engine(), now=12.0)
    announcing = ProcessorLog("scores", watched.engine, LogQuota())
    watched.tally.begin_round(4.0)
    announcing.log_figures(watched.snapshot, None)
    watched.tally.end_round(12.0)
    announcing.log_figures(watched.snapshot, None)

    during, afterwards = caplog.records
    assert during.round_seconds == pytest.approx(8, abs=1)  # type: ignore[attr-defined]
    assert ", a round for 8" in during.getMessage()
    assert afterwards.round_seconds is None  # type: ignore[attr-defined]
    assert "round" not in afterwards.getMessage()
