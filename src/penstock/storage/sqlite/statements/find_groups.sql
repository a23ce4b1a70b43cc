-- Each source of the groups that have a place in :source (NULL: of all groups); of a group that has none, NULL once.
SELECT g.name, g.kind, p.source FROM penstock_group AS g
LEFT JOIN (SELECT DISTINCT "group", source FROM penstock_position) AS p ON p."group" = g.name
WHERE :source IS NULL
   OR EXISTS (SELECT 1 FROM penstock_position AS at WHERE at."group" = g.name AND at.source = :source)
ORDER BY g.name, p.source
