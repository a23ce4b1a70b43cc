-- Keep appends away from the event type %(name)s and take its heads, in the order that appends keep to.
SELECT p.id
FROM (SELECT id FROM penstock_event_type WHERE name = %(name)s FOR UPDATE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id
ORDER BY p.id FOR UPDATE OF p
