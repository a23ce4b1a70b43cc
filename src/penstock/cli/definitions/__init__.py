"""Definitions of event types outside of a hub: read from files, made from classes, checked and compared."""
