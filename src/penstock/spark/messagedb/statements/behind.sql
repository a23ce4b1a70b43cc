-- Returns the global position of the event behind so many of a stretch; nothing where it has no more.
SELECT global_position
FROM {schema}.messages
WHERE {schema}.category(stream_name) = %(category)s
    AND global_position >= %(start)s AND global_position < %(end)s
ORDER BY global_position
OFFSET %(events)s LIMIT 1
