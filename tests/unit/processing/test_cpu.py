import threading
import time

import pytest

from penstock.processing.snapshot import Cpu

SOON_SECONDS = 300.0


def spin(seconds: float) -> None:
    """Compute for so long."""
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="nobody reads another thread's clock here")
def test_running_call_is_counted_before_it_ends() -> None:
    cpu, is_over = Cpu(), threading.Event()

    def run() -> None:
        while not is_over.is_set():
            spin(0.001)

    thread = threading.Thread(target=cpu.wrap("handle", run), daemon=True)
    thread.start()
    deadline = time.monotonic() + SOON_SECONDS
    seen = [0.0]
    while seen[-1] < 0.02 and time.monotonic() < deadline:
        seen.append(cpu.seconds().get("handle", 0.0))
    is_over.set()
    thread.join(SOON_SECONDS)

    assert seen[-1] >= 0.02
    assert seen == sorted(seen)
    assert cpu.seconds()["handle"] >= seen[-1], "what it has come to when it ends is no less"


def test_seconds_computed_elsewhere_are_added() -> None:
    cpu = Cpu()
    cpu.wrap("commit", lambda: spin(0.005))()
    cpu.add("handle", 2.5)
    cpu.add("handle", 1.0)

    assert cpu.seconds()["handle"] == 3.5
    assert cpu.seconds()["commit"] >= 0.005


def test_failed_call_is_counted_and_its_error_raised() -> None:
    cpu = Cpu()

    def fail() -> None:
        spin(0.005)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        cpu.wrap("read", fail)()
    assert cpu.seconds()["read"] >= 0.005
