-- Keep appends away from the event type :name and take its heads, in the order that appends keep to. Nothing is found
-- where it has gone while this waited, even where another of the same name has been created since.
SELECT t.id
FROM (SELECT id FROM penstock_event_type WHERE name = :name FOR UPDATE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id
ORDER BY p.id FOR UPDATE OF p
