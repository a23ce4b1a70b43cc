-- Versions of an event type's schema, newest first.
SELECT definition FROM penstock_schema WHERE event_type_id = %(event_type_id)s
ORDER BY id DESC LIMIT %(limit)s OFFSET %(offset)s
