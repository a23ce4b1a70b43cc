-- Select the versions of an event type's schema, newest first: all, or that of :version.
SELECT definition FROM penstock_schema
WHERE event_type_id = :event_type_id AND (CAST(:version AS TEXT) IS NULL OR version = :version)
ORDER BY id DESC LIMIT :limit OFFSET :offset
