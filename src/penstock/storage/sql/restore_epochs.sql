-- Give every name an epoch that no cursor has seen, however often its feed was created again after the backup. The
-- empty name does so for names that were created after it, which the backup does not have.
UPDATE penstock_epoch SET epoch = epoch + 16
