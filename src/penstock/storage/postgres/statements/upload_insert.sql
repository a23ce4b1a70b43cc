-- Begin an upload.
INSERT INTO penstock_upload (name, event_type_id, "group", number, query, updated_at)
VALUES (%(name)s, %(event_type_id)s, %(group)s, %(number)s, %(query)s, %(at)s)
