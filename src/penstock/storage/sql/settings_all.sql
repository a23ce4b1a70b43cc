-- Select all settings.
SELECT kind, name, value FROM penstock_setting
