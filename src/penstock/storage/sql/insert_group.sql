-- Insert a group, unless it exists.
INSERT INTO penstock_group (name, kind, created_at) VALUES (:group, :kind, :at) ON CONFLICT DO NOTHING
