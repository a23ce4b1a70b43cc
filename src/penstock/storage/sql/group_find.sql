-- Select the kind and the owner of a group.
SELECT kind, owner FROM penstock_group WHERE name = :name
