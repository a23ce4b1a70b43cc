-- Returns the global position of the first event of a category that was written at a time or later; nothing where there
-- is none. The events of the category before it are passed over, in the order of its index (see category_page.sql).
SELECT global_position
FROM {schema}.messages
WHERE {schema}.category(stream_name) = %(category)s AND "time" >= %(time)s
ORDER BY {schema}.category(stream_name), global_position
LIMIT 1
