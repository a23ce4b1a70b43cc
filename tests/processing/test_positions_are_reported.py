"""Positions in a consumer's own database are reported to the hub: listed like all others, moved where they are kept."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Client, ConsumerGroup, NewPosition
from penstock.errors import BadParameter, GroupKindDiffers, GroupNotFound
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor
from penstock.processing.checkpoints import Advance, PositionMove
from penstock.testing.live_hub import LiveHub, live_hub
from tests.processing.office import until
from tests.processing.programs import running

KEPT_AT = "postgresql://db/shop, table positions"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.processing.checkpoints.reporter.INTERVAL", 0.1)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=2)
        client.publish("order.placed", [{"n": n} for n in range(20)])
        yield hub


def reported(client: Client, name: str) -> list[ConsumerGroup]:
    return [each for each in client.consumer_groups(kind="reported") if each.name == name]


def close(checkpoints: DatabaseCheckpoints) -> None:
    """Report the last positions, as the end of a program does."""
    assert checkpoints._reporter is not None
    checkpoints._reporter.close()


def test_processor_is_listed_with_its_gap_and_moved_only_where_it_keeps_its_positions(
    hub: LiveHub, database_url: str
) -> None:
    checkpoints = DatabaseCheckpoints(database_url, "greeter", report_to=hub.url)
    with (
        LocalProcessor(lambda *_: None, FeedSource(hub.url, "order.placed"), checkpoints=checkpoints) as greeter,
        Client(hub.url) as client,
    ):
        greeter.wait_until_caught_up(300)
        until(lambda: [each.gap for each in reported(client, "greeter")] == [0])
        client.publish("order.placed", [{"n": n} for n in range(5)])
        until(lambda: checkpoints.positions() and reported(client, "greeter")[0].gap == 0)
        [found] = [each for each in client.consumer_groups("order.placed") if each.name == "greeter"]
        assert (found.name, found.kind) == ("greeter", "reported")
        assert (found.kept_at or "").endswith(", table penstock_checkpoints")
        assert not set("@?") & set(found.kept_at or "@")
        with pytest.raises(GroupKindDiffers, match="groups reset greeter --database URL") as refused:
            client.reset_positions("greeter", to="earliest")
        assert str(found.kept_at) in refused.value.detail
    close(checkpoints)


def test_hub_that_does_not_answer_or_refuses_harms_no_processor(
    hub: LiveHub, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(hub.url) as client:
        client.commit_positions("taken", [NewPosition("order.placed", 0, 0)], kind="spark")
    with caplog.at_level(logging.WARNING, "penstock.processing"):
        for number, (url, name) in enumerate([("http://127.0.0.1:9", "away"), (hub.url, "taken")]):
            checkpoints = DatabaseCheckpoints(database_url, name, report_to=url)
            source = FeedSource(hub.url, "order.placed")
            with LocalProcessor(lambda *_: None, source, checkpoints=checkpoints) as greeter:
                greeter.wait_until_caught_up(300)
            until(lambda: sum("are not reported" in each.message for each in caplog.records) > number)  # noqa: B023
            assert set(checkpoints.positions()) == {"order.placed/0", "order.placed/1"}
            close(checkpoints)


def test_last_position_of_a_program_that_ends_is_reported(hub: LiveHub, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from penstock.processing import DatabaseCheckpoints\n"
        "from penstock.processing.checkpoints import Advance, PositionMove\n"
        "kept = DatabaseCheckpoints(sys.argv[2], 'short', report_to=sys.argv[1])\n"
        "kept.commit(Advance({'order.placed/0': PositionMove(None, '1:1'), 'file': PositionMove(None, 7)}))\n"
        "kept.commit(Advance({'order.placed/0': PositionMove('1:1', '1:2')}))\n"
        "print('done', flush=True)\n"
    )
    with running(str(program), hub.url, f"sqlite:///{tmp_path}/shop.db") as short:
        assert short.line() == "done"
        with Client(hub.url) as client:
            until(lambda: reported(client, "short"))
            until(lambda: [each.offset for each in client.consumer_group("short").positions] == [2])


def test_positions_of_other_sources_are_not_reported(hub: LiveHub, database_url: str) -> None:
    checkpoints = DatabaseCheckpoints(database_url, "files", report_to=hub.url)
    checkpoints.commit(Advance({"a.ndjson": PositionMove(None, 7)}))
    close(checkpoints)
    with Client(hub.url) as client, pytest.raises(GroupNotFound):
        client.consumer_group("files")


@pytest.mark.parametrize("kept_at", [None, "", "x" * 501, "postgresql://me:secret@db/shop", "db?password=x", "a\nb"])
def test_report_that_does_not_say_where_or_has_a_credential_is_refused(hub: LiveHub, kept_at: str | None) -> None:
    with Client(hub.url) as client:
        with pytest.raises(BadParameter, match="kept_at") as refused:
            client.commit_positions("own", [NewPosition("order.placed", 0, 1)], kind="reported", kept_at=kept_at)
        assert "secret" not in str(refused.value)
        client.commit_positions("own", [NewPosition("order.placed", 0, 1)], kind="reported", kept_at=KEPT_AT)
        client.commit_positions("own", [NewPosition("order.placed", 0, 2)])
        assert client.consumer_group("own").kept_at == KEPT_AT
        with pytest.raises(GroupKindDiffers, match="it cannot have kept_at"):
            client.commit_positions("p", [NewPosition("order.placed", 0, 1)], kind="processor", kept_at=KEPT_AT)
