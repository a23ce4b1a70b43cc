"""What tests stand on: ours, and those of the services and handlers that use Penstock.

    live_hub    a real hub in a process of its own, on a free port
    factories   event types and events that are valid as they are
    clock       a clock that stands still until a test moves it
    postgres    a PostgreSQL server, thrown away afterwards
    pgbouncer   PgBouncer before it
    plugin      fixtures, which pytest finds by itself
    processing  faults, time and what must hold in the end, for tests of handlers

The plugin needs pytest, the databases psycopg.
"""
