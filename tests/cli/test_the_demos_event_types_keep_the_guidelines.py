from pathlib import Path

from penstock.cli.demo.dataset import EVENT_TYPES
from tests.cli.command import Command

FILES = sorted(map(str, EVENT_TYPES.glob("*.yaml")))


def test_what_the_demo_creates_passes_the_check_and_waives_with_reasons(penstock: Command) -> None:
    checked = penstock("event-type", "check", *FILES, "--output", "json")

    assert checked.status == 0, checked.err
    found = checked.json["event_types"]
    assert [each["name"] for each in found] == [Path(file).stem for file in FILES]
    findings = [finding for each in found for finding in each["findings"]]
    assert [finding for finding in findings if not finding["waived"]] == []
    assert all(len(finding["waived"]) > 20 for finding in findings), "a reason is a sentence"


def test_departures_would_not_pass_without_their_process_id(penstock: Command, tmp_path: Path) -> None:
    departed = (EVENT_TYPES / "flights.departed.yaml").read_text()
    broken = tmp_path / "departed.yaml"
    broken.write_text(departed.replace("penstock/process-id-field: flight_id", "penstock/process-id-field: nothing"))

    assert penstock("event-type", "check", str(broken)).status != 0
