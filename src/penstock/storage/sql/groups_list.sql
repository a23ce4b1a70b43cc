-- Consumer groups whose names come after :after: of all, or that of :name, of :kind, of those that have a place in :source
-- or subscribe to it (NULL: whatever they are). Each with all such sources, its definition as a
-- subscription, its owner, and where it keeps its positions if not here.
SELECT g.name, g.kind,
       (SELECT json_group_array(source) FROM (
            SELECT source FROM penstock_position WHERE "group" = g.name
            UNION SELECT t.name FROM penstock_subscription_source AS r
                  JOIN penstock_event_type AS t ON t.id = r.event_type_id
                  WHERE r.subscription = g.name) AS sources),
       s.definition, g.owner, g.kept_at
FROM penstock_group AS g
LEFT JOIN penstock_subscription AS s ON s.id = g.name
WHERE g.name COLLATE "C" > :after
  AND (CAST(:name AS text) IS NULL OR g.name = :name)
  AND (CAST(:kind AS text) IS NULL OR g.kind = :kind)
  AND (CAST(:source AS text) IS NULL
       OR EXISTS (SELECT 1 FROM penstock_position AS at WHERE at."group" = g.name AND at.source = :source)
       OR EXISTS (SELECT 1 FROM penstock_subscription_source AS r
                  JOIN penstock_event_type AS t ON t.id = r.event_type_id
                  WHERE r.subscription = g.name AND t.name = :source))
ORDER BY g.name COLLATE "C"
LIMIT :limit
