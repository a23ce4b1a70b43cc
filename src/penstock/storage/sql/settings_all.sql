-- Every setting.
SELECT kind, name, value FROM penstock_setting
