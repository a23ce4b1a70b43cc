-- Returns where the store ends: behind the last event of all that can be seen.
SELECT coalesce(max(global_position), 0) + 1
FROM {schema}.messages
