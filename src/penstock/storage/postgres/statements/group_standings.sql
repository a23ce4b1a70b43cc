-- Where the groups :names (a JSON array) stand, what each partition has, and when the first event that is there and not
-- committed came. What is of another epoch than its feed has nothing of it committed. Of an event in a file of
-- the cold tier it is the time of the first event in that.
SELECT p."group", p.source, p.slice, p.tranche, p.epoch, p."offset", p.updated_at,
       t.epoch, a.floor, greatest(a.floor, a.holes_stop, coalesce(newest."offset" + 1, 0)),
       coalesce(sealed.received_from, wanted.received_at)
FROM penstock_position AS p
LEFT JOIN penstock_event_type AS t ON t.name = p.source
LEFT JOIN penstock_partition AS a ON a.event_type_id = t.id AND a.number = p.tranche
LEFT JOIN LATERAL (SELECT "offset" FROM penstock_event
                   WHERE partition_id = a.id AND "offset" >= a.floor ORDER BY "offset" DESC LIMIT 1) AS newest ON true
LEFT JOIN LATERAL (SELECT received_at FROM penstock_event
                   WHERE partition_id = a.id
                     AND "offset" >= greatest(a.floor, CASE WHEN p.epoch = t.epoch THEN p."offset" END)
                   ORDER BY "offset" LIMIT 1) AS wanted ON true
LEFT JOIN LATERAL (SELECT received_from FROM penstock_cold_file
                   WHERE partition_id = a.id AND state = 'sealed' AND events > 0
                     AND stop > greatest(a.floor, CASE WHEN p.epoch = t.epoch THEN p."offset" END)
                   ORDER BY stop LIMIT 1) AS sealed ON true
WHERE p."group" = ANY(ARRAY(SELECT json_array_elements_text(:names::json)))
ORDER BY p."group" COLLATE "C", p.source COLLATE "C", p.slice COLLATE "C", p.tranche
