-- Copy the epochs into the event types, and raise each revision above those that running hubs may remember.
UPDATE penstock_event_type
SET epoch = (SELECT epoch FROM penstock_epoch WHERE penstock_epoch.name = penstock_event_type.name), revision = revision + 16
