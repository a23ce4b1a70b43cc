"""What cannot be made of events by those who consume them: they do not say enough, or there is nowhere to keep it."""

from penstock.errors.refused import Conflict, Invalid


class WrongCategory(Invalid):
    """Events of this category have not what is needed. Fields: event_type, category, wanted, reason."""

    code = "wrong-category"
    message = "the category of {event_type!r} is {category}, not {wanted}: {reason}"
    hint = "Read an event type of that category, or see to it that an effect can be brought about twice."


class EidMissing(Invalid):
    """An event has no id. Fields: event_type (None: unknown), partition, index (in its batch, from 0), told, reason."""

    code = "eid-missing"
    message = "{told} has no id: metadata.eid {reason}"
    hint = "Business and data events have one. Nothing of its batch was remembered: roll back, and store no cursors."


class OrderUnknown(Invalid):
    """It cannot be told where an event stands among others. Fields: event_type, partition, index, eid, told, reason."""

    code = "order-unknown"
    message = "{told} cannot be put in order: {reason}"
    hint = "Nothing of its batch was remembered: roll back, and store no cursors before you know what to do with it."


class EventUnfit(Invalid):
    """An event is not of the type into which it was to be read.

    Fields: feed, partition, cursor (the last before it), place (its number after that cursor, from 1), eid, type,
    member, reason, told.
    """

    code = "event-unfit"
    message = "{told} is no {type}: {member} {reason}"
    hint = "Decide: correct the type, or keep event.raw for later and go on, for the page's cursors lead past it."


class OutsideTransaction(Conflict):
    """What is remembered would be committed at once, before the effect that it stands for."""

    code = "outside-transaction"
    message = "no transaction is open, and the connection commits each statement at once"
    hint = "Begin one (BEGIN IMMEDIATE; connection.transaction()), and do in it what the events are to bring about."
