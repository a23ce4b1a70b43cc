"""The pages show what `make bench-peers` has measured."""

from dataclasses import replace
from pathlib import Path

from bench.peers.results import CHOOSING, MeasuredPeer, describe_peers, keep, load, write_choosing


def test_page_of_benchmarks_shows_peers_and_their_conditions(tmp_path: Path) -> None:
    kept = tmp_path / "peers.json"
    keep(some_peers(), [], 3, 1000, kept)
    run = load(kept)

    section = "\n".join(describe_peers(kept))

    assert run is not None
    assert list(run.peers) == some_peers()
    assert "| Penstock on SQLite | yes | 7 000 (4.2 / 9.0) |" in section
    assert "| Kafka, default | no | 30 000 (1.0 / 2.0) |" in section
    assert "| single events, 32 writers: events/s | **0.08** of the app (≥ 0.6) |" in section
    assert "| single events, 32 writers: 99th percentile | **4.5** of the app (≤ 3) |" in section
    assert "| Kafka, default | 4.1.1 | the operating system | confluent-kafka |" in section


def test_page_of_benchmarks_shows_medians_of_rounds_and_what_failed(tmp_path: Path) -> None:
    kept = tmp_path / "peers.json"
    [ours, limit, *_] = some_peers()
    ours = replace(ours, rounds={"batches-1": [{"rate": rate} for rate in (100, 500, 200)]})
    limit = replace(limit, rounds={"batches-1": [{"rate": rate} for rate in (200, 500, 1000)]})

    keep([ours, limit], ["Redis, always"], 3, 1000, kept)
    section = "\n".join(describe_peers(kept))

    assert "| Penstock on SQLite | yes |  |  | 200 |  |  |" in section
    assert "| batches of 1000, 1 connection: events/s | **0.50** of the app (≥ 0.75) |" in section
    assert "Could not be measured in this run: Redis, always." in section


def test_choosing_shows_the_fastest_of_the_others_by_durability(tmp_path: Path) -> None:
    kept, page = tmp_path / "peers.json", tmp_path / "choosing.md"
    keep(some_peers(), [], 3, 1000, kept)

    write_choosing(page, kept)

    [row] = [line for line in page.read_text().splitlines() if line.startswith("| single events, 32 writers")]
    assert "| 7 000 (4.2 / 9.0) | Redis, always: 20 000 (1.0 / 3.0) | Kafka, default: 30 000 (1.0 / 2.0) |" in row
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| publish to consumer at 2000")]
    assert "| saturated at 900 events/s | Redis, always: 0.9 / 3.0 |" in row


def test_choosing_is_written_from_the_results(tmp_path: Path) -> None:
    page = tmp_path / "choosing.md"
    write_choosing(page)
    assert page.read_text() == CHOOSING.read_text()


def some_peers() -> list[MeasuredPeer]:
    return [
        MeasuredPeer(
            "penstock-sqlite",
            "Penstock on SQLite",
            "ours",
            True,
            "the hub",
            "bare sockets",
            "0.1.0",
            {
                "single-32": [{"rate": 7000, "p50": 4.2, "p99": 9}],
                "follow-2000": [{"rate": 900, "p50": 800, "p99": 900}],
            },
        ),
        MeasuredPeer(
            "bare-app",
            "limit: bare app",
            "limit",
            True,
            "the app",
            "bare sockets",
            "1",
            {"single-32": [{"rate": 90_000, "p50": 1, "p99": 2}]},
        ),
        MeasuredPeer(
            "redis-always",
            "Redis, always",
            "other",
            True,
            "Redis",
            "bare sockets",
            "7.0.15",
            {
                "single-32": [{"rate": 20_000, "p50": 1, "p99": 3}],
                "follow-2000": [{"rate": 2000, "p50": 0.9, "p99": 3}],
            },
        ),
        MeasuredPeer(
            "kafka-default",
            "Kafka, default",
            "other",
            False,
            "the operating system",
            "confluent-kafka",
            "4.1.1",
            {"single-32": [{"rate": 30_000, "p50": 1, "p99": 2}]},
        ),
    ]
