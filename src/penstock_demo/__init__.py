"""The demo: a year of flights, published through a hub, read by Spark, looked at.

It is part of a checkout and of the source distribution, not of the wheel.
"""
