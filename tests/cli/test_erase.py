"""`penstock erase`: asks, waits until the events of a key are erased, and reports."""

from penstock.client import Client
from tests.cli.command import Command


def test_events_of_a_key_are_erased_and_counted(at_hub: Command, client: Client, orders: str) -> None:
    client.publish(orders, [{"order_id": f"{n % 3}"} for n in range(9)])

    asked = at_hub("erase", orders, "--key", "1", stdin="n\n")
    erased = at_hub("erase", orders, "--key", "1", "--yes")
    again = at_hub("erase", orders, "--key", "1", "--yes", "-o", "json").json

    assert asked.status != 0
    assert erased.out.startswith(
        f"erased 3 events, 0 parked keys, 0 rejected rows, 0 dead letters of {orders}, as erasure "
    )
    assert (again["state"], again["erased"]["events"]) == ("finished", 0)
    assert "has nothing with the key '1'" in at_hub("erase", orders, "--key", "1", "--yes").err
    assert "has nothing" not in erased.err


def test_unknown_event_type_is_said_before_anything_is_asked(at_hub: Command) -> None:
    refused = at_hub("erase", "nothing.here", "--key", "1")

    assert refused.status == 1
    assert "there is no event type 'nothing.here'" in refused.err
