-- Lock a group: whoever stores positions of it waits. What it is.
SELECT kind FROM penstock_group WHERE name = :name FOR UPDATE
