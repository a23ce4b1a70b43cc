-- Versions of an event type's schema, newest first.
SELECT definition FROM penstock_schema WHERE event_type_id = :event_type_id
ORDER BY id DESC LIMIT :limit OFFSET :offset
