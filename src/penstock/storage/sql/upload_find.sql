-- Select the upload :name.
SELECT u.id, u.batch_id, u."group"
FROM penstock_upload AS u
JOIN penstock_event_type AS e ON e.id = u.event_type_id
WHERE u.name = :name AND e.name = :event_type
