"""Helpers for our tests, and for tests of services and handlers that use Penstock.

    live_hub    a real hub in a process of its own, on a free port
    factories   valid event types and events
    clock       a clock that stands still until a test moves it
    postgres    a PostgreSQL server that is removed afterwards
    pgbouncer   PgBouncer in front of it
    plugin      fixtures, which pytest discovers
    processing  faults, virtual time and assertions for tests of handlers

The plugin needs pytest, the databases psycopg.
"""
