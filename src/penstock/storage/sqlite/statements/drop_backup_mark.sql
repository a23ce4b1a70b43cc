-- Remove the mark that the file is a backup: its feeds have new epochs.
DROP TABLE IF EXISTS penstock_backup
