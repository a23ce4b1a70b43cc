-- Raise the epoch of the name :name.
INSERT INTO penstock_epoch (name, epoch) VALUES (:name, (SELECT epoch + 1 FROM penstock_epoch WHERE name = ''))
ON CONFLICT (name) DO UPDATE SET epoch = penstock_epoch.epoch + 1
RETURNING epoch
