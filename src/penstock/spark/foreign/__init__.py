"""Sources of foreign servers: `format("zeroeventhub")`, `format("nakadi")` and `format("messagedb")`.

All three have one shape: `query.py` has the parts of a query, `source.py` and `stream.py` are Spark's classes for it,
and a module for each protocol has what is its own. `landing.py` makes micro-batches repeatable where the server cannot:
the driver writes what it was sent to files, and tasks read the files.
"""
