-- Returns the global position of the event behind so many of a stretch; nothing where it has no more.
SELECT global_position
FROM {schema}.messages
WHERE ({schema}.category(stream_name), global_position) >= (%(category)s, %(start)s)
    AND ({schema}.category(stream_name), global_position) < (%(category)s, %(end)s)
ORDER BY {schema}.category(stream_name), global_position
OFFSET %(events)s LIMIT 1
