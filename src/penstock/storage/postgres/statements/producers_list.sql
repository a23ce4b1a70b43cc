-- Select the producers of a partition whose names come after :after, each with its last batch.
SELECT r.partition_id, r.name, r.id, r.epoch, r.begins, r.previous_epoch, r.previous_next, r.previous_last_offset,
       r.claim_id, r.is_pinned, r.is_expired, r.updated_at, b.number + b.events, b."offset" + b.events - 1, b.appended_at
FROM penstock_producer AS r
LEFT JOIN LATERAL (SELECT number, events, "offset", appended_at FROM penstock_produced
                   WHERE producer_id = r.id AND epoch = r.epoch ORDER BY number DESC LIMIT 1) AS b ON true
WHERE r.partition_id = :partition_id AND r.name > :after
ORDER BY r.name
LIMIT :limit
