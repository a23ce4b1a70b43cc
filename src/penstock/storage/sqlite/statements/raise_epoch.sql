-- Give the name :name its next epoch.
INSERT INTO penstock_epoch (name, epoch) VALUES (:name, 1)
ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1
RETURNING epoch
