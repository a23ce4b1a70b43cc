-- Select the kind and the owner of a group, and lock it: transactions that store its positions wait.
SELECT kind, owner FROM penstock_group WHERE name = :name FOR UPDATE
