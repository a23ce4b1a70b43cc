"""The fixtures, in a pytest of their own, as users have them."""

import subprocess
import sys

import pytest

from tests.plugin import PLUGIN

HEAVY = ("pyarrow", "typer", "httpx2", "starlette", "penstock.hub", "penstock.client", "penstock.processing")
TESTS = """
import sys
import pytest

HEAVY = {heavy!r}
LOADED = [name for name in HEAVY if name in sys.modules]


def test_nothing_heavy_is_there_before_it_is_asked_for():
    assert LOADED == []


def test_processor_reads_memory_by_the_virtual_clock(penstock_memory, penstock_run, penstock_clock):
    from penstock.processing.outcomes import retry

    found = []

    def handle(stream, events):
        if penstock_clock() < began + 5_000_000:
            return retry(5.0)
        found.extend(event.data for event in events)

    began = penstock_clock()
    penstock_memory.append("S0", [1, 2])
    processor = penstock_run(handle)
    processor.drain()
    assert found == []
    processor.drain(advance=True)
    assert found == [1, 2]
    assert penstock_clock() == began + 5_000_000


def test_source_and_rules_of_a_processor_can_be_given(penstock_run):
    from penstock.processing import Rules
    from penstock.processing.sources import MemorySource

    source = MemorySource()
    source.append("S0", [1, 2, 3])
    processor = penstock_run(lambda *_: None, source, rules=Rules(events_per_call=1))
    processor.drain()
    assert processor.engine.latency["ok"].histogram().count == 3


def test_hub_is_running(penstock_hub, tmp_path):
    from penstock.client import Client

    with Client(penstock_hub.url) as client:
        client.create_event_type("order.placed")
        assert client.publish("order.placed", [{{"n": 1}}])
    assert (tmp_path / "penstock.db").exists()
"""


def test_fixtures_work_in_the_tests_of_a_user(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS.format(heavy=HEAVY))
    # As a process, since all of it is loaded here already.
    options = ("-W", "error", "-p", "no:cacheprovider", "-p", "no:schemathesis")
    pytester.runpytest_subprocess(*PLUGIN, *options).assert_outcomes(passed=4)


def test_fixtures_of_the_plugin_are_named_after_the_product() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import penstock.testing.plugin as p; print([n for n in vars(p) if n[0] != '_'])"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    fixtures = [name for name in eval(listed) if "penstock" in name]

    assert fixtures == ["penstock_hub", "penstock_memory", "penstock_clock", "penstock_run"]
