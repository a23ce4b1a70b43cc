-- Select the authorization of all subscriptions, and who owns them.
SELECT s.id, json_extract(s.definition, '$.authorization'), g.owner
FROM penstock_subscription AS s
JOIN penstock_group AS g ON g.name = s.id
