-- Insert the next version of an event type's schema.
INSERT INTO penstock_schema (event_type_id, version, definition)
VALUES (:event_type_id, :version, :definition)
