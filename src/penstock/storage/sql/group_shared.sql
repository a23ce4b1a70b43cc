-- Select who of a group's members is there, and who has which tranches; NULL: they do not share.
SELECT shared FROM penstock_group WHERE name = :name
