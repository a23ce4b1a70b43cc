"""The rules by which streams are handed to handlers and progress is made: pure, with the time given to every step.

    item      what the engine needs to know of an event
    outcome   what a handler says of a span
    call      a span that is with a handler
    stream    what is buffered of a stream, and how far it is handled
    tranche   the batches of a tranche that are under way, and the position that is safe to resume from
    ready     which stream comes next
    backoff   how long a failing stream waits
    busy      which calls are active, which streams fail or stall, and for how long
    histogram durations of calls, in bounded memory
    health    when a processor is to stop
    engine    all of it together

Runners (`penstock.processing.runners`) read, call and commit; they differ in nothing else.
"""
