-- Forgets what lies so many places or more behind the last that a partition has brought.
DELETE FROM {table}
WHERE feed = :feed AND consumer = :consumer AND "partition" = :partition AND place <= (
    SELECT max(place) FROM {table} WHERE feed = :feed AND consumer = :consumer AND "partition" = :partition
) - :events
