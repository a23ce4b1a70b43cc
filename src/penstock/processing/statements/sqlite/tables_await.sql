-- Who writes to the file is alone already.
SELECT :table
