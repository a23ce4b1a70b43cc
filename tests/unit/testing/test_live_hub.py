import pytest

from penstock.testing.live_hub import LiveHub


def test_live_hub_has_a_url_before_its_start() -> None:
    hub = LiveHub("sqlite:///shop.db", port=4711)

    assert hub.url == "http://127.0.0.1:4711"
    with pytest.raises(AssertionError, match="not running"):
        hub.pid  # noqa: B018


def test_stop_of_a_hub_that_does_not_run_returns_zero() -> None:
    hub = LiveHub("sqlite:///shop.db")

    hub.kill()
    assert hub.stop() == 0
