-- How many rejected rows have one of the %(ids)s (NULL: any) and the event type %(event_type)s (NULL: any).
SELECT count(*) FROM penstock_rejected
WHERE (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s)
