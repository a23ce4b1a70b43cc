-- Have the range of the file :path end at :stop.
UPDATE penstock_cold_file SET stop = :stop WHERE path = :path
