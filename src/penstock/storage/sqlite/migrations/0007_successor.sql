-- Call the next owner of a partition its successor.
ALTER TABLE penstock_slot RENAME COLUMN heir TO successor;
