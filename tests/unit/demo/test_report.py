import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from penstock_demo.delays import Delay, Stop
from penstock_demo.flags import Kill
from penstock_demo.report import Step, print_delays, print_places, print_restarts, print_steps

DELAYS = [
    Delay("AA", "American Airlines Inc.", month, flights=32_000, cancelled=2_000, departure_delay=-5.4, late_share=0.25)
    for month in range(1, 13)
]


def told(show: Callable[[Console], None], width: int = 1_000) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width))
    return file.getvalue()


def printed(width: int) -> str:
    steps = [Step("publish", 1_000, 0.5), Step("start", 0, 1.0)]
    return told(lambda console: print_delays(console, DELAYS), width) + told(lambda c: print_steps(c, steps), width)


@pytest.mark.parametrize(("width", "name"), [(80, "AA"), (130, "American Airlines Inc.")])
def test_tables_are_not_truncated(width: int, name: str) -> None:
    text = printed(width)

    row = next(line for line in text.splitlines() if line.strip().startswith(name))
    assert row.count("-5") == 13
    assert "…" not in text


def test_steps_with_rows_have_a_rate() -> None:
    lines = printed(130).splitlines()

    assert next(line for line in lines if "publish" in line).split() == ["publish", "1", "000", "0.5", "2", "000"]
    assert next(line for line in lines if "start" in line).split() == ["start", "-", "1.0", "-"]


def restarts(stop: Stop | None, kill: Kill | None) -> str:
    return told(lambda console: print_restarts(console, stop, kill))


def test_work_before_a_restart_is_reported_apart_from_the_rest() -> None:
    text = restarts(Stop(before=9_000, lost=500, after=1_000), Kill(before=7_000, doubtful=3, after=3_000))

    assert "stopped with 9 000 flights in its rows, and 500 more that were folded and not written" in text
    assert "it folded the 1 000 that its rows did not have, and none twice." in text
    assert "killed with 7 000 flights handled, and 3 flags that were published and not noted down" in text
    assert "it handled the other 3 000. What it had" in text


def test_restart_before_any_work_is_reported_so() -> None:
    text = restarts(Stop(before=0, lost=2_000, after=2_000), Kill(before=0, doubtful=1, after=2_000))

    assert "stopped before it had any rows: 2 000 flights had been folded and not written" in text
    assert "it folded all 2 000, and none twice." in text
    assert "killed before it had noted any flight down as handled; it had published 1 flag by then" in text
    assert "it handled all 2 000. What it had published was found in the feed" in text
    assert restarts(None, None) == ""


def test_places_name_every_created_file(tmp_path: Path) -> None:
    text = told(lambda console: print_places(console, tmp_path, tmp_path / "delays.png"))

    for name in ("penstock.db", "lake/", "checkpoints/", "read_model.db", "flagging.db", "delays.png", "*.log"):
        assert f"  {tmp_path}/{name} " in text
    assert f"penstock checkpoint show flagging --database sqlite:///{tmp_path}/flagging.db" in text
