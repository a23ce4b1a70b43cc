-- Hold a group, so that nobody locks or forgets it while positions are stored. What it is.
SELECT kind FROM penstock_group WHERE name = :name FOR KEY SHARE
