-- Which of these subscriptions (a JSON array) there are, and the revision of each.
SELECT id, revision FROM penstock_subscription WHERE id IN (SELECT value FROM json_array_elements_text(:ids::json) AS value)
