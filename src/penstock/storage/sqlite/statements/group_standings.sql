-- Where the groups :names (a JSON array) stand, what each partition has, and when the first event that is there and not
-- committed came. What is of another epoch than its feed has nothing of it committed. Of an event in a file of
-- the cold tier it is the time of the first event in that.
SELECT p."group", p.source, p.slice, p.tranche, p.epoch, p."offset", p.updated_at,
       t.epoch, a.floor,
       max(a.floor, a.holes_stop, coalesce((SELECT max(place) FROM penstock_event
                              WHERE place >= a.id << 40 AND place < a.id + 1 << 40) - (a.id << 40) + 1, 0)),
       coalesce((SELECT received_from FROM penstock_cold_file
                 WHERE partition_id = a.id AND state = 'sealed' AND events > 0
                   AND stop > max(a.floor, iif(p.epoch = t.epoch, p."offset", 0))
                 ORDER BY stop LIMIT 1),
                (SELECT received_at FROM penstock_event
                 WHERE place = (SELECT min(place) FROM penstock_event
                                WHERE place >= (a.id << 40) + max(a.floor, iif(p.epoch = t.epoch, p."offset", 0))
                                  AND place < a.id + 1 << 40)))
FROM penstock_position AS p
LEFT JOIN penstock_event_type AS t ON t.name = p.source
LEFT JOIN penstock_partition AS a ON a.event_type_id = t.id AND a.number = p.tranche
WHERE p."group" IN (SELECT value FROM json_each(:names))
ORDER BY p."group", p.source, p.slice, p.tranche
