-- Every setting.
SELECT kind, name, value FROM penstock_setting ORDER BY kind COLLATE "C", name COLLATE "C"
