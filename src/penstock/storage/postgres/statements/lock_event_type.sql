-- Keep appends away from the event type %(name)s and take its heads, in the order that appends keep to; return its id. By
-- that it is known from here on: another of the same name may have been created while this one waited.
SELECT t.id
FROM (SELECT id FROM penstock_event_type WHERE name = %(name)s FOR UPDATE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id
ORDER BY p.id FOR UPDATE OF p
