-- Returns the first events of a stretch. Conditions and order are pairs, as the category's index is, and no other index
-- has that order: with one category a constant, the planner may read all events by their positions instead.
SELECT global_position, {columns}
FROM {schema}.messages
WHERE ({schema}.category(stream_name), global_position) >= (%(category)s, %(start)s)
    AND ({schema}.category(stream_name), global_position) < (%(category)s, %(end)s)
ORDER BY {schema}.category(stream_name), global_position
LIMIT %(rows)s
