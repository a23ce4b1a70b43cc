-- Forget rejected rows, chosen like `rejected_find`.
DELETE FROM penstock_rejected
WHERE (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s)
