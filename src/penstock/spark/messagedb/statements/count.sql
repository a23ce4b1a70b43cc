-- Counts the events of a stretch, up to a number; null stands for no limit.
SELECT count(*)
FROM (
    SELECT
    FROM {schema}.messages
    WHERE {schema}.category(stream_name) = %(category)s
        AND global_position >= %(start)s AND global_position < %(end)s
    ORDER BY global_position
    LIMIT %(most)s
) AS counted
