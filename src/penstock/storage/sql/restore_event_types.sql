-- Copy the epochs into the event types, and give each a revision that no hub has seen, which may still remember one.
UPDATE penstock_event_type
SET epoch = (SELECT epoch FROM penstock_epoch WHERE penstock_epoch.name = penstock_event_type.name), revision = revision + 16
