-- Select the kind of a group; a write transaction has locked the whole file.
SELECT kind FROM penstock_group WHERE name = :name
