-- Select up to :limit event types, the one with the most events first: number of retained events, time of the newest, mean size
-- of the newest 8 in each of 4 partitions, and how many event types there are.
SELECT m.name, m.events, m.received_at,
       (SELECT avg(length(CAST(e.data AS BLOB)))
        FROM penstock_partition AS a
        JOIN penstock_event AS e
          ON e.place > (SELECT max(place) FROM penstock_event WHERE place >= a.id << 40 AND place < a.id + 1 << 40) - 8
         AND e.place >= a.id << 40 AND e.place < a.id + 1 << 40
        WHERE a.event_type_id = m.id AND a.number < 4),
       m.total
FROM (
    SELECT id, name, events, received_at, count(*) OVER () AS total FROM (
        SELECT t.id, t.name, sum(coalesce(max(0, e.place - (a.id << 40) + 1 - a.floor), 0)) AS events,
               max(e.received_at) AS received_at
        FROM penstock_event_type AS t
        JOIN penstock_partition AS a ON a.event_type_id = t.id
        LEFT JOIN penstock_event AS e
               ON e.place = (SELECT max(place) FROM penstock_event WHERE place >= a.id << 40 AND place < a.id + 1 << 40)
        GROUP BY t.id)
    ORDER BY events DESC, name
    LIMIT :limit) AS m
ORDER BY m.events DESC, m.name
