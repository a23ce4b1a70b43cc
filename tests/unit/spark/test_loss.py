import pickle

import pytest

from penstock.errors import EventsLost
from penstock.spark.heads import report_loss


def test_lost_events_error_names_partition_count_reason_and_remedy() -> None:
    with pytest.raises(EventsLost) as lost:
        report_loss(True, event_type="order.placed", partition=3, lost=17, reason="retention has removed them")

    assert str(lost.value) == (
        "17 events of 'order.placed', partition 3, can no longer be read: retention has removed them. Continue "
        "without them by the option failOnDataLoss=false of a query, or fail_on_loss=False of a source, or start with "
        "a new checkpoint."
    )
    assert pickle.loads(pickle.dumps(lost.value)).fields["lost"] == 17


def test_a_loss_that_is_not_to_fail_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    report_loss(False, event_type="order.placed", partition=None, lost=None, reason="it was created again")

    [record] = caplog.records
    assert record.name == "penstock.spark"
    assert record.getMessage().startswith("an unknown number of events of 'order.placed', all partitions")
