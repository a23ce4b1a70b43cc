-- Make the group known.
INSERT INTO penstock_group (name, kind, created_at) VALUES (:group, :kind, :at) ON CONFLICT DO NOTHING
