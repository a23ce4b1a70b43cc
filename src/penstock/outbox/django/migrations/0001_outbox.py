"""Creates the outbox."""

from typing import ClassVar

from django.db import migrations
from django.db.migrations.operations.base import Operation

from penstock.outbox.django.operations import CreateOutbox


class Migration(migrations.Migration):
    """Needs no other migration; the hub may have created the table already."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Operation]] = [CreateOutbox()]
