-- Insert a setting, unless there is one of that name.
INSERT INTO penstock_setting (kind, name, value) VALUES (:kind, :name, :value)
ON CONFLICT (kind, name) DO NOTHING
