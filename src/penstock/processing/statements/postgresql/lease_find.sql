-- Who has which tranches, and what time it is, in microseconds, by the clock that all have.
SELECT shared, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) FROM {table}_leases
WHERE processor = :processor
