-- Forgets what a partition has brought before a time, up to the first of its ids that was seen at that time or later.
DELETE FROM {table}
WHERE feed = :feed AND consumer = :consumer AND "partition" = :partition AND place < coalesce((
    SELECT place FROM {table}
    WHERE feed = :feed AND consumer = :consumer AND "partition" = :partition AND seen_at >= :since
    ORDER BY place
    LIMIT 1
), 9223372036854775807)
