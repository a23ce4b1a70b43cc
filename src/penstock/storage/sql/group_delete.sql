-- Forget a group, and with it its positions and its history.
DELETE FROM penstock_group WHERE name = :name
