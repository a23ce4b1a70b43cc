-- Give the positions of subscriptions the new epochs of their feeds.
UPDATE penstock_position AS p SET epoch = t.epoch
FROM penstock_event_type AS t
WHERE t.name = p.source AND EXISTS (SELECT 1 FROM penstock_subscription AS s WHERE s.id = p."group")
