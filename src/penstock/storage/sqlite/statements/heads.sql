-- The heads of the partitions :ids (a JSON array); those whose event type is gone are left out. Events below
-- the floor, which are being deleted, are not looked at.
SELECT p.id, t.revision, p.floor, max(p.floor, p.holes_stop, coalesce(e."offset" + 1, 0)),
       max(p.received_at, coalesce(e.received_at, 0)), p.holes_stop, p.removals, p.cold_stop
FROM json_each(:ids) AS asked
JOIN penstock_partition AS p ON p.id = asked.value
JOIN penstock_event_type AS t ON t.id = p.event_type_id
LEFT JOIN penstock_event AS e
       ON e.place = (SELECT max(place) FROM penstock_event WHERE place >= (p.id << 40) + p.floor AND place < p.id + 1 << 40)
