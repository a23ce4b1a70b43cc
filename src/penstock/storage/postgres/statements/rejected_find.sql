-- The ids of the rejected rows that have one of the %(ids)s (NULL: any) and the event type %(event_type)s (NULL: any).
SELECT id FROM penstock_rejected
WHERE (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s)
ORDER BY id
