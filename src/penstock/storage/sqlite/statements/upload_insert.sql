-- Begin an upload.
INSERT INTO penstock_upload (name, event_type_id, "group", number, query, updated_at)
VALUES (:name, :event_type_id, :group, :number, :query, :at)
