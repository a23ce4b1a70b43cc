-- Consumer groups whose names come after %(after)s: of all, or that of %(name)s, of %(kind)s, of those that have a place in
-- %(source)s or subscribe to it (NULL: whatever they are). Each with all such sources, and its definition as a subscription.
SELECT g.name, g.kind,
       array_to_json(ARRAY(SELECT source FROM penstock_position WHERE "group" = g.name
                           UNION SELECT t.name FROM penstock_subscription_source AS r
                                 JOIN penstock_event_type AS t ON t.id = r.event_type_id
                                 WHERE r.subscription = g.name))::text,
       s.definition
FROM penstock_group AS g
LEFT JOIN penstock_subscription AS s ON s.id = g.name
WHERE g.name COLLATE "C" > %(after)s
  AND (%(name)s::text IS NULL OR g.name = %(name)s)
  AND (%(kind)s::text IS NULL OR g.kind = %(kind)s)
  AND (%(source)s::text IS NULL
       OR EXISTS (SELECT FROM penstock_position AS at WHERE at."group" = g.name AND at.source = %(source)s)
       OR EXISTS (SELECT FROM penstock_subscription_source AS r
                  JOIN penstock_event_type AS t ON t.id = r.event_type_id
                  WHERE r.subscription = g.name AND t.name = %(source)s))
ORDER BY g.name COLLATE "C"
LIMIT %(limit)s
