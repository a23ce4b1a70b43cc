-- Give the name %(name)s its next epoch.
INSERT INTO penstock_epoch (name, epoch) VALUES (%(name)s, 1)
ON CONFLICT (name) DO UPDATE SET epoch = penstock_epoch.epoch + 1
RETURNING epoch
