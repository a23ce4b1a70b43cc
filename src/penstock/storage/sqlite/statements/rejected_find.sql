-- The ids of the rejected rows that have one of the :ids (a JSON array; NULL: any) and the event type :event_type
-- (NULL: any).
SELECT id FROM penstock_rejected
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:event_type IS NULL OR event_type = :event_type)
ORDER BY id
