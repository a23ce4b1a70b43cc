-- Select the authorization of all subscriptions, and who owns them.
SELECT s.id, nullif(CAST(as_json(s.definition) -> 'authorization' AS text), 'null'), g.owner
FROM penstock_subscription AS s
JOIN penstock_group AS g ON g.name = s.id
