"""A Django app whose migration creates the outbox: add "penstock.outbox.django" to INSTALLED_APPS."""
