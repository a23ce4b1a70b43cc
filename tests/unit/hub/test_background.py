import threading

from penstock.hub.background import Background

RUNS = 8


def test_it_runs_by_its_name_once_it_is_started_and_only_once() -> None:
    ran: list[threading.Thread] = []
    background = Background("penstock-test", lambda: ran.append(threading.current_thread()))
    assert not background.started

    together = threading.Barrier(RUNS)

    def start() -> None:
        together.wait()
        background.start()

    starters = [threading.Thread(target=start) for _ in range(RUNS)]
    for each in starters:
        each.start()
    for each in starters:
        each.join()

    assert background.ended()
    background.start()
    assert [(thread.name, thread.daemon) for thread in ran] == [("penstock-test", True)]
    assert background.started


def test_its_end_is_waited_for_as_long_as_is_said() -> None:
    over = threading.Event()
    background = Background("penstock-test", over.wait)
    background.start()

    assert not background.ended(0)
    assert not background.ended(0.01)
    over.set()
    assert background.ended(60)
    assert background.ended()


def test_one_that_was_never_started_has_ended() -> None:
    assert Background("penstock-test", lambda: None).ended()
