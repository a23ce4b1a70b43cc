-- Give a group to :owner, unless it has one.
UPDATE penstock_group SET owner = :owner WHERE name = :name AND owner IS NULL
