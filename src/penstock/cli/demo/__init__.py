"""The demo: a year of flights, published through a hub, read by Spark, looked at."""
