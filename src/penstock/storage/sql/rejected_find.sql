-- The ids of the rejected rows that have one of the :ids (a JSON array; NULL: any) and the event type :event_type
-- (NULL: any).
SELECT id FROM penstock_rejected
WHERE (CAST(:ids AS text) IS NULL OR id IN (SELECT CAST(value AS bigint) FROM json_each(:ids)))
  AND (CAST(:event_type AS text) IS NULL OR event_type = :event_type)
ORDER BY id
