-- Forget a setting.
DELETE FROM penstock_setting WHERE kind = %(kind)s AND name = %(name)s
