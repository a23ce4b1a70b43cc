import pytest

from penstock.testing.live_hub import LiveHub


def test_a_hub_has_an_address_before_it_is_started() -> None:
    hub = LiveHub("sqlite:///shop.db", port=4711)

    assert hub.url == "http://127.0.0.1:4711"
    with pytest.raises(AssertionError, match="not running"):
        hub.pid  # noqa: B018


def test_a_hub_that_does_not_run_ends_as_one_that_has_ended_well() -> None:
    hub = LiveHub("sqlite:///shop.db")

    hub.kill()
    assert hub.stop() == 0
