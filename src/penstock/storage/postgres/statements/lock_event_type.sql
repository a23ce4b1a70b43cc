-- Keep appends away from the event type :name and lock its heads, in the order of appends. Select nothing if it was
-- dropped meanwhile, even if another one of that name was created since.
SELECT t.id
FROM (SELECT id FROM penstock_event_type WHERE name = :name FOR UPDATE) AS t
JOIN penstock_partition AS p ON p.event_type_id = t.id
ORDER BY p.id FOR UPDATE OF p
