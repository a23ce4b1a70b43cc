-- Let subscriptions stand where they stood, in feeds that have another epoch by now.
UPDATE penstock_position SET epoch = (SELECT epoch FROM penstock_event_type WHERE name = source)
WHERE "group" IN (SELECT id FROM penstock_subscription)
