-- What a group is: the transaction has the whole file already.
SELECT kind FROM penstock_group WHERE name = :name
