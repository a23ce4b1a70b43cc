-- Select some producers idle since :since that are neither pinned nor expired.
SELECT r.partition_id, r.name, r.id, r.epoch, r.begins, r.previous_epoch, r.previous_next, r.previous_last_offset,
       r.claim_id, r.is_pinned, r.is_expired, r.updated_at, b.number + b.events, b."offset" + b.events - 1, b.appended_at
FROM penstock_producer AS r
JOIN penstock_partition AS p ON p.id = r.partition_id AND p.event_type_id IS NOT NULL
LEFT JOIN penstock_produced AS b
       ON b.producer_id = r.id AND b.epoch = r.epoch
      AND b.number = (SELECT max(number) FROM penstock_produced WHERE producer_id = r.id AND epoch = r.epoch)
WHERE NOT r.is_pinned AND NOT r.is_expired AND r.updated_at < :since AND coalesce(b.appended_at, 0) < :since
ORDER BY r.partition_id, r.name
LIMIT :limit
