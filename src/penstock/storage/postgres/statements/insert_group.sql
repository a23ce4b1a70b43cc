-- Make the group known.
INSERT INTO penstock_group (name, kind, created_at) VALUES (%(group)s, %(kind)s, %(at)s) ON CONFLICT DO NOTHING
