-- Select up to :limit event types, the one with the most events first: number of retained events, time of the newest, and how
-- many event types there are.
SELECT name, events, received_at, count(*) OVER () FROM (
    SELECT t.name, sum(coalesce(max(0, e.place - (a.id << 40) + 1 - a.floor), 0)) AS events, max(e.received_at) AS received_at
    FROM penstock_event_type AS t
    JOIN penstock_partition AS a ON a.event_type_id = t.id
    LEFT JOIN penstock_event AS e
           ON e.place = (SELECT max(place) FROM penstock_event WHERE place >= a.id << 40 AND place < a.id + 1 << 40)
    GROUP BY t.id)
ORDER BY events DESC, name
LIMIT :limit
