-- Each source of the groups that have a place in %(source)s (NULL: of all groups); of a group that has none, NULL once.
SELECT g.name, g.kind, p.source FROM penstock_group AS g
LEFT JOIN (SELECT DISTINCT "group", source FROM penstock_position) AS p ON p."group" = g.name
WHERE %(source)s::text IS NULL
   OR EXISTS (SELECT FROM penstock_position AS at WHERE at."group" = g.name AND at.source = %(source)s)
ORDER BY g.name COLLATE "C", p.source COLLATE "C"
