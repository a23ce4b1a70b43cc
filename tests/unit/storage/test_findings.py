from penstock.storage.findings import BACKLOG_MAX, outbox_finding, rejected_finding


def test_outbox_is_ok_up_to_the_maximum_backlog() -> None:
    assert outbox_finding(BACKLOG_MAX - 1) == ("outbox", True, f"{BACKLOG_MAX - 1} rows wait to be moved")
    assert not outbox_finding(BACKLOG_MAX).ok


def test_one_rejected_row_is_wrong() -> None:
    assert rejected_finding(0).ok
    assert not rejected_finding(1).ok
