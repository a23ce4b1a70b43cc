-- Who has which tranches, and what time it is, in microseconds, by the clock that all who share one file have. It tells
-- milliseconds: whole seconds would give away what is leased for a few of them while it still is.
SELECT
    shared,
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
FROM {table}_leases WHERE processor = :processor
