"""The configuration of the Django app."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """The app; its label is unlikely to clash with another app's."""

    name = "penstock.outbox.django"
    label = "penstock_outbox"
    verbose_name = "Penstock outbox"
