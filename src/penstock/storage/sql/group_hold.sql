-- Select the kind and the owner of a group, and keep others from locking or deleting it while positions are stored.
SELECT kind, owner FROM penstock_group WHERE name = :name FOR KEY SHARE
