-- Give the positions of subscriptions the new epochs of their feeds.
UPDATE penstock_position SET epoch = (SELECT epoch FROM penstock_event_type WHERE name = source)
WHERE "group" IN (SELECT id FROM penstock_subscription)
