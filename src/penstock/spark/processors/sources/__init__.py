"""What processors and projections on Spark read: sources whose events executors read by themselves.

source      what such a source promises
feeds       the feeds of a hub
frames      what is read as a data frame of Spark's: rows become events
table       any data frame that can be read again
kafka       records of Kafka
messagedb   the categories of a MessageDB
"""
