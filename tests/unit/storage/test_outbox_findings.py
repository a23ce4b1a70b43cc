from penstock.storage.store import BACKLOG_MAX, check_outbox, check_rejected


def test_outbox_is_ok_up_to_the_maximum_backlog() -> None:
    assert check_outbox(BACKLOG_MAX - 1) == ("outbox", True, f"{BACKLOG_MAX - 1} rows wait to be moved")
    assert not check_outbox(BACKLOG_MAX).ok


def test_one_rejected_row_is_wrong() -> None:
    assert check_rejected(0).ok
    assert not check_rejected(1).ok
