-- Delete the events of a range; a trigger refuses those that are not below the floor.
DELETE FROM penstock_event WHERE place >= :first AND place < :past
