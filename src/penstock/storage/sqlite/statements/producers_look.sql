-- The producers :wanted (a JSON array of partition and name), each with its last batch; those whose event type is gone are
-- left out.
SELECT w.partition_id, w.name, r.id, r.epoch, r.begins, r.previous_epoch, r.previous_next, r.previous_last_offset,
       r.claim_id, r.is_pinned, r.is_expired, r.updated_at, b.number + b.events, b."offset" + b.events - 1, b.appended_at
FROM (SELECT json_extract(value, '$[0]') AS partition_id, json_extract(value, '$[1]') AS name
      FROM json_each(:wanted)) AS w
JOIN penstock_partition AS p ON p.id = w.partition_id AND p.event_type_id IS NOT NULL
LEFT JOIN penstock_producer AS r ON r.partition_id = w.partition_id AND r.name = w.name
LEFT JOIN penstock_produced AS b
       ON b.producer_id = r.id AND b.epoch = r.epoch
      AND b.number = (SELECT max(number) FROM penstock_produced WHERE producer_id = r.id AND epoch = r.epoch)
