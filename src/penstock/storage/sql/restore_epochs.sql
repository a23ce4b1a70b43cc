-- Give every name an epoch that no cursor has seen, however often its feed was created again after the backup, and however
-- often the same backup was restored: the seconds since 2020. The empty name does so for names that were created after the
-- backup, which does not have them.
UPDATE penstock_epoch SET epoch = greatest(epoch + 16, (clock_micros() - 1577836800000000) / 1000000)
