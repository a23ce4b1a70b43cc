-- Select the producers of a partition whose names come after :after, each with its last batch.
SELECT r.partition_id, r.name, r.id, r.epoch, r.begins, r.previous_epoch, r.previous_next, r.previous_last_offset,
       r.claim_id, r.is_pinned, r.is_expired, r.updated_at, b.number + b.events, b."offset" + b.events - 1, b.appended_at
FROM penstock_producer AS r
LEFT JOIN penstock_produced AS b
       ON b.producer_id = r.id AND b.epoch = r.epoch
      AND b.number = (SELECT max(number) FROM penstock_produced WHERE producer_id = r.id AND epoch = r.epoch)
WHERE r.partition_id = :partition_id AND r.name > :after
ORDER BY r.name
LIMIT :limit
