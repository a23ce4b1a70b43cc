-- Insert an upload, unless its event type is gone; wait for a transaction that drops that.
INSERT INTO penstock_upload (name, event_type_id, "group", number, query, updated_at)
SELECT :name, id, :group, :number, :query, :at
FROM penstock_event_type WHERE id = :event_type_id FOR KEY SHARE
