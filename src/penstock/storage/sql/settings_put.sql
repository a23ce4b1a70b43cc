-- Insert or replace a setting.
INSERT INTO penstock_setting (kind, name, value) VALUES (:kind, :name, :value)
ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value
