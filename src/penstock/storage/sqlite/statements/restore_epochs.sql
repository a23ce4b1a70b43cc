-- Give every name an epoch that no cursor has seen, however often its feed was made anew after the backup was taken.
UPDATE penstock_epoch SET epoch = epoch + 16
