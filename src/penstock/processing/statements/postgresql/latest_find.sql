-- Returns what was last applied to each of the entities, a list in JSON, and holds it until the transaction ends. Sorted,
-- so that two transactions that want the same do not wait for each other. FOR UPDATE within has each looked up by itself:
-- all at once, where the planner knows nothing of the table yet, would compare each entity with each other.
SELECT kept.entity, kept.ordering_key, kept.deleted
FROM (
    SELECT entity
    FROM json_array_elements_text(CAST(CAST(:entities AS text) AS json)) AS listed (entity)
    ORDER BY entity COLLATE "C"
) AS asked
CROSS JOIN LATERAL (
    SELECT entity, ordering_key, deleted FROM {table}
    WHERE feed = CAST(:feed AS text) AND consumer = CAST(:consumer AS text) AND entity = asked.entity
    FOR UPDATE
) AS kept
