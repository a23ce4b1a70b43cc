-- Record how far a subscription has come in partitions (a JSON array of event type, partition, offset).
UPDATE penstock_position SET "offset" = json_extract(moved.value, '$[2]'), updated_at = :at
FROM json_each(:offsets) AS moved
WHERE "group" = :id AND slice = '' AND source = json_extract(moved.value, '$[0]')
  AND tranche = json_extract(moved.value, '$[1]')
