"""Helpers for tests of handlers: injected faults, virtual time, and assertions about the result.

times               when a fault happens: nth, every, by_chance, always
faulty_handler      FaultyHandler fails calls, before or after their effect
slow_handler        SlowHandler lets virtual time pass in calls
faulty_source       FaultySource fails reads, repeats events, and mixes streams
faulty_checkpoints  FaultyCheckpoints fails commits, or loses their answers
virtual_inline      VirtualInline runs a processor by a VirtualClock, and retries transient errors
witness             Witness records calls, and compares them with the source's events
caught_up           await_caught_up waits for running processors, and reports what blocks them
"""

from penstock.testing.processing.caught_up import await_caught_up
from penstock.testing.processing.faulty_checkpoints import FaultyCheckpoints
from penstock.testing.processing.faulty_handler import FaultyHandler, InjectedFault
from penstock.testing.processing.faulty_source import FaultySource
from penstock.testing.processing.slow_handler import SlowHandler
from penstock.testing.processing.times import Times, always, by_chance, every, never, nth
from penstock.testing.processing.virtual_inline import VirtualInline
from penstock.testing.processing.witness import Witness

__all__ = [
    "FaultyCheckpoints",
    "FaultyHandler",
    "FaultySource",
    "InjectedFault",
    "SlowHandler",
    "Times",
    "VirtualInline",
    "Witness",
    "always",
    "await_caught_up",
    "by_chance",
    "every",
    "never",
    "nth",
]
