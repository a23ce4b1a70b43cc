-- Record how far a subscription has come in partitions (a JSON array of event type, partition, offset).
UPDATE penstock_position AS p SET "offset" = (moved ->> 2)::bigint, updated_at = %(at)s
FROM json_array_elements(%(offsets)s::json) AS moved
WHERE p."group" = %(id)s AND p.slice = '' AND p.source = moved ->> 0 AND p.tranche = (moved ->> 1)::integer
