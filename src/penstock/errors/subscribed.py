"""What can stand in the way of a subscription."""

from penstock.errors.refused import Invalid


class InvalidSubscription(Invalid):
    """A subscription's definition breaks a rule. Fields: field, reason, violations (all fields that are wrong)."""

    code = "invalid-subscription"
    message = 'Field "{field}" {reason}'


class MalformedSubscription(InvalidSubscription):
    """A member of a subscription is of the wrong type, or none of the values it can have. Fields: field, reason."""

    code = "malformed-subscription"
