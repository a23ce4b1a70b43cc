-- Select some batches that no repeat needs, oldest first: those of expired producers and of dropped partitions; and of others
-- those whose events were removed, and, unless their producer is pinned, those that were appended before :before, except the
-- newest :kept of each producer. The oldest batch of a producer tells whether it has any of these.
SELECT b.producer_id, b.epoch, b.number
FROM penstock_producer AS r
JOIN penstock_partition AS p ON p.id = r.partition_id
JOIN penstock_produced AS b ON b.producer_id = r.id
WHERE (r.is_expired OR p.event_type_id IS NULL
       OR (SELECT o."offset" + o.events <= p.floor OR (o.appended_at < :before AND NOT r.is_pinned)
           FROM penstock_produced AS o WHERE o.producer_id = r.id ORDER BY o.epoch, o.number LIMIT 1))
  AND (r.is_expired OR p.event_type_id IS NULL
       OR (b."offset" + b.events <= p.floor OR (b.appended_at < :before AND NOT r.is_pinned))
          AND (b.epoch, b.number) < (SELECT epoch, number FROM penstock_produced WHERE producer_id = b.producer_id
                                     ORDER BY epoch DESC, number DESC LIMIT 1 OFFSET :kept - 1))
ORDER BY r.id, b.epoch, b.number
LIMIT :rows
