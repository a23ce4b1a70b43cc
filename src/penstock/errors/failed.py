"""What was asked for rightly, and failed: it is gone, it is out of reach, or another server is to blame."""

from penstock.errors.root import PenstockError


class CursorExpired(PenstockError):
    """Events after it are gone. Fields: parameter, event_type, partition, first_available, last_available, lost."""

    code = "cursor-expired"
    message = (
        "{parameter} points to events of {event_type!r}, partition {partition}, that are gone: {reason}; {lost} events "
        "were lost, {first_available} is the first cursor available"
    )
    hint = "Go on at first_available without what was lost, or load the state anew from elsewhere: you have to decide."


class EventsLost(PenstockError):
    """What a query was to read is gone. Fields: event_type, partition (None: all), lost (None: unknown), reason."""

    code = "events-lost"
    message = "{lost} events of {event_type!r}, partition {partition}, can no longer be read: {reason}"
    hint = (
        "Go on without them, by the option failOnDataLoss=false of a query or fail_on_loss=False of a source, or begin "
        "anew with another checkpoint."
    )


class FeedCreatedAgain(EventsLost):
    """The feed that a processor was reading is another one now. Fields: event_type, partition, lost, reason."""

    code = "feed-created-again"
    message = "{event_type!r}, partition {partition}, is another feed than this processor has read: {reason}"
    hint = (
        "What a processor keeps by index meant other events: begin anew. `penstock checkpoint forget` or `penstock "
        "groups reset` moves it, and a projection takes another version."
    )


class LandedPageMissing(PenstockError):
    """A page that had landed for a query is not where it was. Fields: page (where that is)."""

    code = "landed-page-missing"
    message = "the page {page}, which had landed for this query, is not there"
    hint = "Put back what was deleted, or mount what is not; or begin anew with another checkpoint."


class Unavailable(PenstockError):
    """The request can be repeated unchanged after a while. Fields: retry_after (seconds)."""

    code = "unavailable"
    message = "not available now: {reason}"
    retryable = True


class DatabaseUnavailable(Unavailable):
    """The database does not answer, or not in time."""

    code = "database-unavailable"
    message = "the database cannot be used now: {reason}"


class DiskFull(Unavailable):
    """The database has no room left; nothing was written."""

    code = "disk-full"
    message = "the database has no room left, nothing was written: {reason}"


class OutboxBacklog(Unavailable):
    """More waits in the outbox than could be moved within the time that a read may take."""

    code = "outbox-backlog"
    message = "what was committed to the outbox of {event_type!r} could not all be moved within {seconds} s"


class DeadlinePassed(Unavailable):
    """A batch was not begun in the time that its producer gave the hub; nothing of it was done."""

    code = "deadline-passed"
    message = "the batch was not begun before its deadline"


class HubStopped(Unavailable):
    """The hub is shutting down."""

    code = "hub-stopped"
    message = "the hub is shutting down"


class ChangesSwitchedOff(Unavailable):
    """An operator has switched off changes of event types and settings, for a while."""

    code = "changes-switched-off"
    message = "event types and settings cannot be changed now: the feature disable_db_write_operations is on"
    hint = (
        "Events can be published and read meanwhile. Whoever runs the hub can switch it off: POST /settings/features."
    )


class Unreachable(Unavailable):
    """The server could not be reached: nothing was sent. Fields: url, reason."""

    code = "unreachable"
    message = "{url} cannot be reached: {reason}"
    hint = "Check the address, and that the hub runs."


class ProxyUnreachable(Unreachable):
    """The proxy could not be reached, or refused: nothing was sent. Fields: url, reason, proxy, variable."""

    code = "proxy-unreachable"
    message = "{url} cannot be reached through the proxy {proxy} that {variable} names: {reason}"
    hint = "Correct or unset the variable, or name the server's host in NO_PROXY: then it is asked directly."


class ConnectionLost(Unavailable):
    """The connection broke, or timed out, before the whole answer had come. Fields: url, reason."""

    code = "connection-lost"
    message = "the connection to {url} was lost before the whole answer had come: {reason}"


class OutcomeUnknown(PenstockError):
    """The request may or may not have been carried out, and a repeat could do it twice. Fields: reason."""

    code = "outcome-unknown"
    message = "it is not known whether this was carried out: {reason}"
    hint = "Look whether it was before you repeat it: in the feed, where it was a publish."


class ServerError(PenstockError):
    """A server answered with an error that is none of ours. Fields: status, url, body (its beginning)."""

    code = "server-error"
    message = "{url} answered {status}: {body}"


class WrongAddress(ServerError):
    """What answers there is neither a hub nor a feed. Fields: status, url, body (its beginning), wanted (which)."""

    code = "wrong-address"
    message = "no {wanted} answers at {url}, but something that says {status}: {body}"
    hint = "Check scheme, host, port and path. A browser shows what answers at that address."


class MalformedAnswer(PenstockError):
    """A server answered with something that its protocol does not allow. Fields: url, reason."""

    code = "malformed-answer"
    message = "{url} gave an answer that cannot be used: {reason}"
    hint = "Check the address: another server may answer there, or a proxy in between may have changed the answer."


class RequirementMissing(PenstockError):
    """Something that does not come with Penstock is not there, or too old. Fields: needed, found, install."""

    code = "requirement-missing"
    message = "{needed} is needed, {found} found; {install}"


class SchemaError(PenstockError):
    """The database's tables are not those that this version works with."""

    code = "schema-error"


class SchemaMissing(SchemaError):
    """The database has no Penstock tables, or older ones. Fields: found, wanted."""

    code = "schema-missing"
    message = "the database is at schema version {found}, this Penstock needs {wanted}"
    hint = "Run `penstock migrate --database URL` with the URL of this database."


class SchemaTooNew(SchemaError):
    """The database was migrated by a newer Penstock. Fields: found, wanted."""

    code = "schema-too-new"
    message = "the database is at schema version {found}, newer than the {wanted} that this Penstock knows"
    hint = "Install a newer Penstock."


class TableUnsuitable(SchemaError):
    """A table in a database of the user's is not the one of its name. Fields: table, missing (columns), columns."""

    code = "table-unsuitable"
    message = "the table {table} is another one: it has not the columns {missing}, but {columns}"
    hint = "Another program, or another version, has made it. Have another name be used, or rename that table."


class TableGone(SchemaError):
    """Tables that were in a database of the user's are not there any more. Fields: tables, reason."""

    code = "table-gone"
    message = "the tables of {tables} are not there any more: {reason}"
    hint = (
        "Somebody has dropped them, or each connection opens a database of its own, as one in memory is. What is "
        "started again makes them anew, and begins where it would with nothing kept."
    )


class EncodingUnsuitable(SchemaError):
    """The database stores text in an encoding in which events cannot be kept byte for byte. Fields: found, wanted."""

    code = "encoding-unsuitable"
    message = "the database's encoding is {found}, Penstock needs {wanted}"
    hint = "Use another: `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0` makes one, SQLite any new file."
