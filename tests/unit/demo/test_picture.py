from pathlib import Path

from penstock_demo.delays import Delay
from penstock_demo.picture import by_lateness, draw, mean

EARLY = Delay("AA", "Early Air", 1, flights=10, cancelled=0, departure_delay=-2.0, late_share=0.0)
LATE = Delay("BB", "Late Lines", 1, flights=4, cancelled=1, departure_delay=30.0, late_share=1.0)
GONE = Delay("CC", "Gone", 12, flights=3, cancelled=3, departure_delay=None, late_share=None)


def test_carriers_are_ordered_by_mean_delay_weighted_by_departed_flights() -> None:
    assert mean([EARLY, LATE]) == (10 * -2.0 + 3 * 30.0) / 13
    assert mean([GONE]) == 0.0

    assert [carrier for carrier, _ in by_lateness([EARLY, GONE, LATE])] == ["BB", "CC", "AA"]


def test_chart_with_months_without_flights_is_drawn(tmp_path: Path) -> None:
    draw([EARLY, LATE, GONE], tmp_path / "delays.png")

    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
