-- Lock event types (shared) and heads, each in the order of their ids.
SELECT p.id
FROM (SELECT id FROM penstock_event_type
      WHERE id IN (SELECT event_type_id FROM penstock_partition WHERE id = ANY(:ids))
      ORDER BY id FOR SHARE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id AND p.id = ANY(:ids)
ORDER BY p.id FOR UPDATE OF p
