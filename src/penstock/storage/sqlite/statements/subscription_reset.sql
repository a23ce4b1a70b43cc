-- Have the streams of a subscription make way for a reset until then; NULL: no longer.
UPDATE penstock_subscription SET resetting_until = :until WHERE id = :id
