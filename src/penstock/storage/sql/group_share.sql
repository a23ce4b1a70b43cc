-- Store who of a group's members is there, and who has which tranches.
UPDATE penstock_group SET shared = :shared WHERE name = :name
