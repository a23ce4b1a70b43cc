-- Insert a subscription, unless there is one of that identity.
INSERT INTO penstock_subscription (id, identity, owning_application, definition, created_at, updated_at, revision)
VALUES (:id, :identity, :owning_application, :definition, :at, :at, 0) ON CONFLICT (identity) DO NOTHING
