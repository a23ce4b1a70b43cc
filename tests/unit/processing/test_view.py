import threading
from io import StringIO

import pytest
from rich.console import Console

from penstock.processing.outcomes import Failure, done
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.snapshot import Snapshot, SourceAnswer
from penstock.processing.sources.memory import MemorySource
from penstock.processing.view import View, live
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched

SOON_SECONDS = 300.0


class Written(StringIO):
    """Keeps what is written, and tells when something was."""

    def __init__(self) -> None:
        super().__init__()
        self.has_come = threading.Semaphore(0)

    def write(self, text: str) -> int:
        written = super().write(text)
        self.has_come.release()
        return written


def draw(view: View, width: int = 160) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(view.draw())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_picture_has_tranches_with_their_gap_and_streams_with_their_trouble() -> None:
    watched = Watched("mailer", engine("order.placed/0", "order.placed/1"))
    watched.tell_behind({"order.placed/0": 128})
    watched.engine.ingest(batch(17, things("A0E3", "B0E4"), "order.placed/0"), 0.0)
    failing, _ = watched.engine.take(2, 0.0)
    watched.engine.settle(failing, Failure("ValueError", "no [such] customer\x1b[2J"), 0.0, 0.0)
    watched.now = 12.0

    lines = draw(View(watched)).splitlines()

    assert lines[0].startswith("mailer: 0 events handled, 2 read ahead, 128 behind, 1 active for up to 12 s, 1 failing")
    [first] = [line.split() for line in lines if line.strip().startswith("order.placed/0")]
    assert first[:5] == ["order.placed/0", "0", "17", "2", "128"]
    [trouble] = [line for line in lines if " failing " in line and "A0" in line]
    assert trouble.split()[:6] == ["A0", "failing", "3", "12.0", "s", "1"]
    assert "ValueError: no [such] customer\N{REPLACEMENT CHARACTER}[2J" in trouble
    assert any(line.split()[:3] == ["B0", "active", "4"] for line in lines)


def test_long_names_and_reasons_are_cut_and_figures_are_not() -> None:
    long = "a-customer-with-a-name-" * 20
    watched = Watched("mailer", engine(f"order.{long}/0"))
    watched.engine.ingest(batch(17, things(f"{long}A0E3"), f"order.{long}/0"), 0.0)
    [failing] = watched.engine.take(1, 0.0)
    watched.engine.settle(failing, Failure("ValueError", f"no such customer {long}"), 0.0, 0.0)
    watched.now = 12.0

    lines = draw(View(watched), 80).splitlines()

    [trouble] = [
        line.split() for line in lines if "failing" in line and "12.0 s" in line and line.startswith(" a-cust")
    ]
    assert trouble[0].endswith("…")
    assert trouble[1:6] == ["failing", "3", "12.0", "s", "1"]
    assert trouble[-1].endswith("…")
    [tranche] = [line.split() for line in lines if line.startswith(" order.a-")]
    assert tranche[0].endswith("…")
    assert tranche[1:4] == ["0", "17", "1"]


def test_rates_are_shown_once_time_has_passed() -> None:
    watched = Watched("mailer", engine())
    view = View(watched)
    assert view.compose_line() == "mailer: 0 events handled, 0 read ahead, 0 active, 0 failing, 0 stalled"
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    watched.tally.note_batch(batch(1, things("A0E0")))
    [call] = watched.engine.take(1, 0.0)
    watched.engine.settle(call, done(), 0.0, 0.001)

    [rated] = [line.split() for line in draw(view).splitlines() if line.split()[:1] == ["t"]]
    assert float(rated[-1]) > 0
    assert view.compose_line().startswith("mailer: 1 events handled, ")
    assert "/s, " in view.compose_line()


def test_tranches_that_are_most_behind_are_shown_first() -> None:
    names = [f"order.placed/{number}" for number in range(40)]
    view = View(watched := Watched("mailer", engine(*names)))
    watched.tell_behind({names[33]: 7, names[35]: 9})

    shown = [line.split()[0] for line in draw(view).splitlines() if line.strip().startswith("order")]

    assert shown[:3] == [names[35], names[33], names[0]]
    assert "and 24 more" in draw(view)
    assert len(watched.snapshot.tranches) == 40


def test_unknown_gap_is_left_out() -> None:
    watched = Watched("mailer", engine())
    watched.tell_behind({"t": None})

    assert "behind" not in View(watched).compose_line()


def test_silent_source_is_reported() -> None:
    watched = Watched("mailer", engine())
    watched.tally.source.begin(0.0)
    watched.now = 14.0
    assert "source" not in View(watched).compose_line()
    watched.now = 90.0

    assert "the source has not answered for 90 s" in View(watched).compose_line()


def test_without_a_terminal_lines_are_written_at_intervals_and_at_the_end() -> None:
    written = Written()
    source = MemorySource()
    with (
        LocalProcessor(lambda *_: None, source, name="mailer") as running,
        live(running, console=Console(file=written, width=200), interval=0.01),
    ):
        for _ in range(6):
            assert written.has_come.acquire(timeout=SOON_SECONDS)
        source.append("A", [1, 2, 3])
        running.wait_until_caught_up(SOON_SECONDS)

    lines = written.getvalue().splitlines()
    assert len(lines) > 2
    assert all(line.startswith("mailer: ") for line in lines)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_last_picture_shows_the_final_state(*, is_terminal: bool) -> None:
    class Late(Watched):
        """Takes a snapshot now and then, as a loop does: the fifth time that somebody looks after all was handled."""

        looks = 0

        @property
        def snapshot(self) -> Snapshot:
            self.looks += is_handled
            return before if self.looks < 5 else super().snapshot

    is_handled = False
    watched, early = Late("mailer", engine()), Watched("mailer", engine())
    early.tell_behind({"t": 34})
    before = early.snapshot
    written = StringIO()
    with live(watched, console=Console(file=written, width=120, force_terminal=is_terminal), interval=1e6):
        watched.engine.ingest(batch(1, things("A0E0")), 0.0)
        [call] = watched.engine.take(1, 0.0)
        watched.engine.settle(call, done(), 0.0, 0.001)
        watched.tally.source.note_counts(SourceAnswer({"t": 0}, {}), 0.0, is_wanted=True)
        is_handled = True

    last = written.getvalue()[written.getvalue().rindex("mailer: ") :]
    assert last.startswith("mailer: 1 events handled, ")
    assert "34" not in last
    if not is_terminal:
        assert ", 0 behind, " in last


def test_picture_on_a_terminal_is_drawn_repeatedly() -> None:
    written = Written()
    console = Console(file=written, force_terminal=True, width=120)
    with LocalProcessor(lambda *_: None, MemorySource(), name="mailer") as running, live(running, console=console):
        for _ in range(3):
            assert written.has_come.acquire(timeout=SOON_SECONDS)

    assert written.getvalue().count("events handled") >= 2
    assert "\x1b[?25l" in written.getvalue(), "the cursor is hidden meanwhile"
