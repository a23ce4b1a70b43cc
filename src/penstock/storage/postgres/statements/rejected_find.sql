-- The ids of the rejected rows that have one of the :ids (NULL: any) and the event type :event_type (NULL: any).
SELECT id FROM penstock_rejected
WHERE (:ids::bigint[] IS NULL OR id = ANY(:ids::bigint[]))
  AND (:event_type::text IS NULL OR event_type = :event_type)
ORDER BY id
