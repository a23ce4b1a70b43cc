-- Create an event type; its name is unique.
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, fingerprint, created_at, updated_at)
VALUES (%(name)s, %(category)s, %(epoch)s, 1, %(definition)s, %(fingerprint)s, %(at)s, %(at)s)
RETURNING id
