-- Counts the events of a stretch, up to a number; null stands for no limit.
SELECT count(*)
FROM (
    SELECT
    FROM {schema}.messages
    WHERE ({schema}.category(stream_name), global_position) >= (%(category)s, %(start)s)
        AND ({schema}.category(stream_name), global_position) < (%(category)s, %(end)s)
    ORDER BY {schema}.category(stream_name), global_position
    LIMIT %(most)s
) AS counted
