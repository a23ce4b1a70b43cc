import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from penstock_demo.access import CALLERS, HubAccess
from penstock_demo.delays import Delay, Stop
from penstock_demo.flags import Kill
from penstock_demo.proof import Proof, Trial
from penstock_demo.report import (
    DemoStep,
    print_console,
    print_delays,
    print_places,
    print_restarts,
    print_security,
    print_steps,
)
from penstock_demo.securing import Security

DELAYS = [
    Delay("AA", "American Airlines Inc.", month, flights=32_000, cancelled=2_000, departure_delay=-5.4, late_share=0.25)
    for month in range(1, 13)
]


def told(show: Callable[[Console], None], width: int = 1_000) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize(("width", "name"), [(80, "AA"), (130, "American Airlines Inc.")])
def test_tables_are_not_truncated_and_steps_with_rows_have_a_rate(width: int, name: str) -> None:
    steps = [DemoStep("publish", 1_000, 0.5), DemoStep("start", 0, 1.0)]
    text = told(lambda console: print_delays(console, DELAYS), width)
    text += told(lambda console: print_steps(console, steps), width)
    lines = [line.split() for line in text.splitlines()]

    row = next(line for line in text.splitlines() if line.strip().startswith(name))
    assert row.count("-5") == 13
    assert "…" not in text
    assert ["publish", "1", "000", "0.5", "2", "000"] in lines
    assert ["start", "-", "1.0", "-"] in lines


def restarts(stop: Stop | None, kill: Kill | None) -> str:
    return told(lambda console: print_restarts(console, stop, kill))


def test_work_before_a_restart_is_reported_apart_from_the_rest() -> None:
    text = restarts(Stop(before=9_000, lost=500, after=1_000), Kill(before=7_000, doubtful=3, after=3_000))

    assert "stopped with 9 000 flights in its rows, and 500 more that were folded and not written" in text
    assert "it folded the 1 000 that its rows did not have, and none twice." in text
    assert "killed with 7 000 flights handled, and 3 flags that were published and not noted down" in text
    assert "it handled the other 3 000. What it had" in text

    text = restarts(Stop(before=0, lost=2_000, after=2_000), Kill(before=0, doubtful=1, after=2_000))

    assert "stopped before it had any rows: 2 000 flights had been folded and not written" in text
    assert "it folded all 2 000, and none twice." in text
    assert "killed before it had noted any flight down as handled; it had published 1 flag by then" in text
    assert "it handled all 2 000. What it had published was found in the feed" in text
    assert restarts(None, None) == ""


def test_places_name_every_created_file_and_what_a_secured_hub_asks_for(tmp_path: Path) -> None:
    text = told(lambda console: print_places(console, tmp_path, tmp_path / "delays.png"))

    for name in (
        "penstock.db",
        "cold/",
        "lake/",
        "checkpoints/",
        "read_model.db",
        "flagging.db",
        "delays.png",
        "*.log",
    ):
        assert f"  {tmp_path}/{name} " in text
    assert f"penstock groups show flagging --database sqlite:///{tmp_path}/flagging.db" in text

    text = told(lambda console: print_places(console, tmp_path, tmp_path / "delays.png", secured(tmp_path)))

    for name in ("tls/", "tokens/"):
        assert f"  {tmp_path}/{name} " in text
    serve = f"--database sqlite:///{tmp_path}/penstock.db --cold {tmp_path.as_uri()}/cold --cold-after never "
    assert f"{serve}--auth token --default-access closed --admin " in text
    assert f"export SSL_CERT_FILE={tmp_path}/tls/authority.pem PENSTOCK_URL=https://127.0.0.1:8080 " in text
    assert f"export PENSTOCK_TOKEN_FILE={tmp_path}/tokens/operator.token " in text
    assert f"curl -i --cacert {tmp_path}/tls/authority.pem 'https://127.0.0.1:8080/" in text
    assert "http://" not in text


def secured(directory: Path) -> Security:
    tls = (directory / "tls" / name for name in ("authority.pem", "hub.pem", "hub.key"))
    return Security(*tls, {name: directory / "tokens" / f"{name}.token" for name in CALLERS})


@pytest.mark.parametrize("width", [80, 130])
def test_security_is_told_whole_with_rights_and_answers(tmp_path: Path, width: int) -> None:
    hub = HubAccess("https://127.0.0.1:1", secured(tmp_path).tokens)
    proof = Proof("TLSv1.3 TLS_AES", [Trial("service:stranger", "GET /feeds/flights.departed", "403 access-denied")])

    text = told(lambda console: print_security(console, hub, proof, tmp_path, searched=1_234), width)

    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "service:stranger GET /feeds/flights.departed 403 access-denied" in lines
    assert "flights.departed publisher pipeline, flagger" in lines
    assert any("https://127.0.0.1:1, TLSv1.3 TLS_AES" in line for line in lines)
    assert any("in any of the 1 234 other files" in line for line in lines)
    assert "…" not in text


def test_demo_ends_with_the_console_or_with_what_serves_it(tmp_path: Path) -> None:
    ended = told(lambda console: print_console(console, tmp_path, None))
    assert f"penstock demo --directory {tmp_path} --serve" in ended
    served = told(lambda console: print_console(console, tmp_path, "http://127.0.0.1:4711"))
    assert "http://127.0.0.1:4711/console" in served
    secure = told(lambda console: print_console(console, tmp_path, "https://127.0.0.1:4711", secured(tmp_path)))
    assert "tokens/operator" in secure
