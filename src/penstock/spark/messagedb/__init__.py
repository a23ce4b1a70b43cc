"""format("messagedb"): the categories of a MessageDB, a store of events in PostgreSQL, in Spark.

MessageDB's own words stand beside ours: its *message* is an event, a message's *type* an event's kind. Its *category*
is what stands before the first `-` of a stream's name. Each event has a *position*, its index in its stream, and a
*global position*, its number in the whole store.

Invariants:
    A reader that has come to a global position of a category has missed none of the category's events below it.

The last is so since `write_message` takes an advisory lock of the category (`acquire_lock`, `pg_advisory_xact_lock`)
before it draws a global position from the sequence. The lock is held until its transaction has ended, when the event
can be seen or never will. So within a category events become visible in the order of their positions, and a position
that was rolled back is a hole for ever. Across categories it is not so: a transaction that is still open may hold a
lower position of another category than those that can be seen. Hence offsets are kept for each category by itself.
Events that somebody inserts into the table without `write_message` are outside of this.
"""
