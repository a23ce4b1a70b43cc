-- Delete a group with its positions and its history.
DELETE FROM penstock_group WHERE name = :name
