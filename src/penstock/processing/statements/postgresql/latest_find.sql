-- Returns what was last applied to each of the entities, a list in JSON, and holds it until the transaction ends. Sorted,
-- so that two transactions that want the same do not wait for each other.
SELECT kept.entity, kept.ordering_key, kept.deleted
FROM {table} AS kept
WHERE kept.feed = CAST(:feed AS text) AND kept.consumer = CAST(:consumer AS text) AND kept.entity = ANY (ARRAY(
    SELECT entity FROM json_array_elements_text(CAST(CAST(:entities AS text) AS json)) AS asked (entity)
))
ORDER BY kept.entity
FOR UPDATE
