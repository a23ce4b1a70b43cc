-- Copy the epochs into the event types, and raise each revision above those that running hubs may remember. Appends and
-- drops are kept away from all of them first, in the order of appends, and the hub's own last, by name; an UPDATE has no
-- order. Event types that are created meanwhile are left as they are: whoever has locked one may wait for another one.
WITH locked AS (
    SELECT id FROM penstock_event_type
    ORDER BY CASE WHEN name IN (
        'nakadi.access.log', 'nakadi.audit.log', 'nakadi.batch.published', 'nakadi.data.streamed', 'nakadi.event.type.log',
        'nakadi.subscription.log'
    ) THEN name ELSE '' END COLLATE "C", id
    FOR UPDATE
)
UPDATE penstock_event_type AS t
SET epoch = (SELECT epoch FROM penstock_epoch WHERE penstock_epoch.name = t.name), revision = revision + 16
FROM locked WHERE t.id = locked.id
