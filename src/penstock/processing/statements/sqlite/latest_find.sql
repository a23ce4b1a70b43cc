-- Returns what was last applied to each of the entities, a list in JSON.
SELECT kept.entity, kept.ordering_key, kept.deleted
FROM json_each(:entities) AS asked CROSS JOIN {table} AS kept
    ON kept.feed = :feed AND kept.consumer = :consumer AND kept.entity = asked.value
