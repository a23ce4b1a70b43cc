-- Insert a group, unless it exists.
INSERT INTO penstock_group (name, kind, owner, created_at) VALUES (:group, :kind, :owner, :at) ON CONFLICT DO NOTHING
