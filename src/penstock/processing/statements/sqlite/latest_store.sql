-- Keeps what was applied now: a list of [entity, ordering key, deleted] in JSON.
INSERT INTO {table} (feed, consumer, entity, ordering_key, deleted, applied_at)
SELECT
    :feed,
    :consumer,
    json_extract(value, '$[0]'),
    json_extract(value, '$[1]'),
    json_extract(value, '$[2]'),
    :now
FROM json_each(:applied)
WHERE true
ORDER BY json_extract(value, '$[0]')
ON CONFLICT (feed, consumer, entity) DO UPDATE
SET ordering_key = excluded.ordering_key, deleted = excluded.deleted, applied_at = excluded.applied_at
