-- Keeps what was applied now: a list of [entity, ordering key, deleted] in JSON.
INSERT INTO {table} (feed, consumer, entity, ordering_key, deleted, applied_at)
SELECT
    CAST(:feed AS text),
    CAST(:consumer AS text),
    applied ->> 0,
    applied ->> 1,
    CAST(applied ->> 2 AS integer),
    CAST(:now AS bigint)
FROM json_array_elements(CAST(CAST(:applied AS text) AS json)) AS listed (applied)
ORDER BY (applied ->> 0) COLLATE "C"
ON CONFLICT (feed, consumer, entity) DO UPDATE
SET ordering_key = excluded.ordering_key, deleted = excluded.deleted, applied_at = excluded.applied_at
