-- Insert an event type; its name is unique.
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, fingerprint, created_at, updated_at)
VALUES (:name, :category, :epoch, 1, :definition, :fingerprint, :at, :at)
RETURNING id
