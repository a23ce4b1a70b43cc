-- Adds a row for each entity that has none, so that there is one to lock. Sorted, so that two transactions that add the
-- same do not wait for each other.
INSERT INTO {table} (feed, consumer, entity, deleted, applied_at)
SELECT CAST(:feed AS text), CAST(:consumer AS text), entity, 0, 0
FROM json_array_elements_text(CAST(CAST(:entities AS text) AS json)) AS asked (entity)
ORDER BY entity COLLATE "C"
ON CONFLICT DO NOTHING
