"""format("zeroeventhub"): feeds of any ZeroEventHub (version 1) or FeedAPI (version 2) server, in Spark.

Such a server knows cursors alone: what a cursor gives depends on when it is asked, and where a feed ends it cannot say.
So the driver of a stream asks for pages and lands them (`spark/landing.py`), and Spark's offsets name what has landed.

Invariants:
    A micro-batch that is planned again has the same rows, whatever the server would answer by now.
    A page becomes part of an offset only once it has landed; one that has landed, and that no offset names yet, is
    taken instead of asking again.
    The events of a partition are numbered from 0 in the order in which they came: no number is given twice.
"""
