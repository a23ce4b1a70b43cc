-- Select the revisions of those of the subscriptions :ids (a JSON array) that exist.
SELECT id, revision FROM penstock_subscription WHERE id IN (SELECT value FROM json_each(:ids))
