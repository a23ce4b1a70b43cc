-- Who has which tranches, and what time it is, in microseconds, by the clock that all who share one file have.
SELECT shared, CAST(strftime('%s', 'now') AS INTEGER) * 1000000 FROM {table}_leases WHERE processor = :processor
