-- Select up to :limit groups with parked keys or streams, the one with the most first: how many, and how many such groups
-- there are.
SELECT g.name, g.kind, coalesce(s.owning_application, ''), k.keys, count(*) OVER ()
FROM (SELECT subscription AS "group", count(*) AS keys FROM penstock_parked GROUP BY subscription
      UNION ALL
      SELECT "group", count(*) FROM penstock_parked_stream GROUP BY "group") AS k
JOIN penstock_group AS g ON g.name = k."group"
LEFT JOIN penstock_subscription AS s ON s.id = g.name
ORDER BY k.keys DESC, g.name COLLATE "C"
LIMIT :limit
