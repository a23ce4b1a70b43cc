-- Delete a setting.
DELETE FROM penstock_setting WHERE kind = :kind AND name = :name
