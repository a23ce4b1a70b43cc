-- Returns where each category ends: behind its last event that can be seen, null where it has none.
SELECT asked.category, (
    SELECT max(global_position) + 1 FROM {schema}.messages WHERE {schema}.category(stream_name) = asked.category
)
FROM unnest(%(categories)s::text[]) AS asked (category)
