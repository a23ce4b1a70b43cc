-- Returns where each category ends: behind its last event that can be seen, null where it has none. The events at or
-- before a category's end are looked at, not the category's alone: only its index has them in this order (see category_page.sql).
SELECT asked.category, (
    SELECT CASE {schema}.category(stream_name) WHEN asked.category THEN global_position + 1 END
    FROM {schema}.messages
    WHERE {schema}.category(stream_name) <= asked.category
    ORDER BY {schema}.category(stream_name) DESC, global_position DESC
    LIMIT 1
)
FROM unnest(%(categories)s::text[]) AS asked (category)
