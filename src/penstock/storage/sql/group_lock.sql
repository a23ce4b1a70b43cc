-- Select the kind of a group, and lock it: transactions that store its positions wait.
SELECT kind FROM penstock_group WHERE name = :name FOR UPDATE
