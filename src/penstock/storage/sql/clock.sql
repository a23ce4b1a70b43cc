-- Select the time: microseconds since 1970.
SELECT clock_micros()
