-- Select the partitions of a subscription with their positions.
SELECT s.event_type, s."partition", s.owner, s.successor, s.sent, s.failed, s.single_until, p.epoch, p."offset", p.updated_at
FROM penstock_slot AS s
JOIN penstock_position AS p
  ON p."group" = s.subscription AND p.source = s.event_type AND p.slice = '' AND p.tranche = s."partition"
WHERE s.subscription = :id
ORDER BY s.event_type COLLATE "C", s."partition"
