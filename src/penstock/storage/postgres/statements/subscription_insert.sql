-- Create a subscription, unless there is one of that identity.
INSERT INTO penstock_subscription (id, identity, owning_application, definition, created_at, updated_at, revision)
VALUES (%(id)s, %(identity)s, %(owning_application)s, %(definition)s, %(at)s, %(at)s, 0) ON CONFLICT (identity) DO NOTHING
