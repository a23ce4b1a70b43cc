"""The hub: composes the services of each capability over one store, and starts and stops their threads."""

import time
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.producers import MODULUS
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.hub.activity import COUNT_INTERVAL, Activity
from penstock.hub.admin.lag_history import SAMPLE_INTERVAL, LagRecorder
from penstock.hub.admin.measuring import DatabaseMonitor
from penstock.hub.admin.permissions import Permissions
from penstock.hub.admin.publishers import Publishers
from penstock.hub.admin.rejected import RejectedRows
from penstock.hub.admin.settings import Settings
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.admin.tokens import Tokens
from penstock.hub.background import CheckedClock, Clock, system_clock
from penstock.hub.batches.batches import Batches
from penstock.hub.cold.sealing import Sealer, SealingOptions
from penstock.hub.cold.services import ColdTierServices
from penstock.hub.cold.tables import TableKeeper
from penstock.hub.committer import GROUP_EVENTS_MAX, Committer
from penstock.hub.erasure import Erasures
from penstock.hub.groups.groups import Groups
from penstock.hub.log.compaction import Compactor
from penstock.hub.log.log import Log
from penstock.hub.log.retention import RetentionRunner
from penstock.hub.log.watch import PollerTasks, Watch
from penstock.hub.producers.producers import Expiry, Producers
from penstock.hub.registry import Registry
from penstock.hub.subscriptions.subscriptions import SubscriptionServices
from penstock.storage.store import Store


class Admin(NamedTuple):
    """The services of a hub for its operators."""

    settings: Settings
    """Administrators, blocked applications and event types, features."""
    permissions: Permissions
    """Decides who may do what."""
    tokens: Tokens
    """The tokens of callers."""
    publishers: Publishers
    """Remembers who publishes to which event type."""
    database: DatabaseMonitor
    """Checks and measures the database, and keeps the lag of consumer groups over the last hours."""
    sweeper: Sweeper
    """Removes dropped and expired data."""
    retention: RetentionRunner
    """Has events expire."""
    rejected: RejectedRows
    """The rows of the outbox that could not be published."""


class Hub:
    """An event hub over one store: a bundle of services, one a capability.

    Safe to use from many threads; any number of hubs may share a database. All services work from the first call.
    `start` adds the background threads, which wake readers when other processes commit, move the outbox when no reader
    does, record the lag of consumer groups, and remove dropped and expired data. `stop` appends the queued requests,
    wakes all waiting readers and closes the store.

    Attributes:
        log: publish, move the outbox, read, wait.
        producers: idempotent producers.
        batches: uploads, and the batches that are made of them.
        subscriptions: subscriptions, their streams and parked keys.
        groups: consumer groups and their positions.
        cold: the cold tier: seals events, keeps tables, finds files.
        registry: event types and schemas.
        erasures: erases the events of a key.
        admin: settings, permissions, tokens, the database, sweeping.
        committer: appends what is published; counts it.
        activity: records what callers do.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = system_clock,
        group_events_max: int = GROUP_EVENTS_MAX,
        limits: Limits = PENSTOCK,
        expiry: Expiry = Expiry(),  # noqa: B008 - it is immutable
        sequence_modulus: int = MODULUS,
        activity_interval: float = COUNT_INTERVAL,
        lag_interval: float = SAMPLE_INTERVAL,
        sealing: SealingOptions = SealingOptions(),  # noqa: B008 - it is immutable
    ) -> None:
        """Compose a hub over *store*.

        *group_events_max* limits the events of one append transaction. *expiry* and *sequence_modulus* concern
        idempotent producers: when they expire, and the number at which sequence numbers wrap around.
        *activity_interval* is the time, in seconds, over which `activity` adds up what callers publish and are sent.
        *lag_interval* is the time, in seconds, between two samples of the lag of consumer groups.
        *sealing* says when events move into the store's cold tier, if it has one.

        Raises:
            InvalidSetting: producers would expire while clients may still retry.
        """
        self.store = store
        self.limits = limits
        self._watch = Watch(store)
        self.activity = Activity(store, clock, count_interval=activity_interval)
        settings = Settings(store, self._apply_settings, clock=clock)
        checked = CheckedClock(clock) if clock is system_clock else clock
        retention = RetentionRunner(store, lambda: settings.current().retention, checked)
        self.erasures = Erasures(store, clock, self._settle, self._sweep)
        self.groups = Groups(store, clock)
        tasks = (
            retention.run,
            self.erasures.run,
            self._expire_parked,
            Compactor(store, checked).run,
            self.groups.members.sweep,
            self.groups.expire_reported,
        )
        sweeper = Sweeper(store, checked, expiry.check(), tasks)
        self._checked_clock = checked
        tokens = Tokens(store, clock)
        permissions = Permissions(store, settings, tokens, clock, self._watch.wake_all)
        monitor = DatabaseMonitor(store, clock, lag_interval)
        self._lag_recorder = LagRecorder(monitor.lag_history, monitor.record_lag)
        publishers, rejected = Publishers(store, clock), RejectedRows(store, clock)
        self.admin = Admin(settings, permissions, tokens, publishers, monitor, sweeper, retention, rejected)
        self.registry = Registry(store, clock, settings, limits, settle=self._settle, sweep=sweeper.sweep)
        self.committer = Committer(
            store,
            clock,
            self.registry.load,
            self._watch.notify_appended,
            group_events_max=group_events_max,
            modulus=sequence_modulus,
        )
        self.log = Log(store, clock, self.registry, self.committer.submit, self._watch)
        self.batches = Batches(store, clock, self.registry.load, self.committer.submit)
        self.producers = Producers(
            store,
            clock,
            expiry,
            sequence_modulus,
            prepare=self.log.prepare,
            submit=self.committer.submit,
        )
        self.subscriptions = SubscriptionServices(store, clock, self.log.reader, self._watch, limits)
        sealer = Sealer(store, checked, self.log.reader, self._end_sealing, sealing)
        self.cold = ColdTierServices(store, sealer, TableKeeper(store, clock))

    def _settle(self, name: str) -> None:
        """Move the outbox of *name* for the registry, which the log needs first."""
        self.log.settle(name)

    def _sweep(self) -> None:
        """Start a sweep soon."""
        self.admin.sweeper.sweep()

    def _end_sealing(self) -> None:
        """Have events deleted that were sealed, and tables updated."""
        self._sweep()
        self.cold.tables.wake()

    def _expire_parked(self, pause: Callable[[float], bool]) -> None:
        """Skip parked keys for the sweeper, which the registry needs before there are subscriptions."""
        self.subscriptions.parked_keys.expire(self._checked_clock(), pause)

    def _apply_settings(self) -> None:
        """Record what the settings say, and have readers check their rights again."""
        self.activity.apply_features(self.admin.settings.current().features)
        self._watch.wake_all()

    def _refresh(self) -> None:
        """Read settings and rights again, and record who has published."""
        self.admin.permissions.refresh()
        self.admin.publishers.record()

    def start(self) -> None:
        """Check the tables and start the background threads; harmless when repeated.

        Raises:
            DatabaseUnsuitable: the tables are not those of this version.
            ColdTierUnsuitable: the cold tier is not that of the database.
            DatabaseUnsuitable: a replica is not one of the database, or its role may not read the events.
            DatabaseUnavailable: the database cannot be reached.
        """
        self.store.check()
        if self.store.replicas is not None:
            self.store.replicas.start()
        self.cold.sealer.start()
        self.cold.tables.start()
        self.admin.settings.start()
        self._watch.start(PollerTasks(self.log.move, self._refresh, self.subscriptions.local_streams.poll))
        self.admin.sweeper.start()
        self.activity.apply_features(self.admin.settings.current().features)
        self.activity.start()
        self._lag_recorder.start()

    def drain(self) -> None:
        """End every wait now, and every later wait at once."""
        self._watch.drain()

    def stop(self, timeout: float | None = None) -> None:
        """Append the queued requests, write recorded activity, wake all waiting readers, and close the store.

        See `Committer.stop`.

        A thread that the database blocks for longer than *timeout* seconds is left to the end of the process, with
        its connection; the store stays open then.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        stops = (
            self._watch.stop,
            self.committer.stop,
            self.activity.stop,
            self._lag_recorder.stop,
            self.admin.sweeper.stop,
            self.cold.sealer.stop,
            self.cold.tables.stop,
            self.subscriptions.stop,
        )
        ended = [stop(None if deadline is None else max(0.0, deadline - time.monotonic())) for stop in stops]
        if all(ended):
            self.store.close()
