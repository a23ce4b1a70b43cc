-- Returns the first events of a stretch. All conditions are the category's index, so that nothing else is looked at.
SELECT global_position, {columns}
FROM {schema}.messages
WHERE {schema}.category(stream_name) = %(category)s
    AND global_position >= %(start)s AND global_position < %(end)s
ORDER BY global_position
LIMIT %(rows)s
