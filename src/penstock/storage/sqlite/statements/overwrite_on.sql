-- Overwrite the bytes of what this connection deletes from now on.
PRAGMA secure_delete = ON
