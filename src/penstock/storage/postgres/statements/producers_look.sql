-- The producers :wanted (a JSON array of partition and name), each with its last batch; those whose event type is gone
-- are left out. Where they were locked first, this is a statement of its own, so that its snapshot is younger than the locks.
SELECT w.partition_id, w.name, r.id, r.epoch, r.begins, r.previous_epoch, r.previous_next, r.previous_last_offset,
       r.claim_id, r.is_pinned, r.is_expired, r.updated_at, b.number + b.events, b."offset" + b.events - 1, b.appended_at
FROM (SELECT (value ->> 0)::integer AS partition_id, value ->> 1 AS name
      FROM json_array_elements(:wanted::json) AS value) AS w
JOIN penstock_partition AS p ON p.id = w.partition_id AND p.event_type_id IS NOT NULL
LEFT JOIN penstock_producer AS r ON r.partition_id = w.partition_id AND r.name = w.name
LEFT JOIN LATERAL (SELECT number, events, "offset", appended_at FROM penstock_produced
                   WHERE producer_id = r.id AND epoch = r.epoch ORDER BY number DESC LIMIT 1) AS b ON true
