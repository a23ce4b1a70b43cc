-- Give every name an epoch that no cursor has seen, however often its feed was made anew after the backup was taken; and
-- through the empty name those too that were made after it, of which the backup knows nothing.
UPDATE penstock_epoch SET epoch = epoch + 16
