"""The event guidelines as rules, which a definition of an event type keeps, breaks, or waives with a reason."""

from penstock.core.guidelines.checking import check as check
from penstock.core.guidelines.draft import ENTITY_KEY_FIELDS as ENTITY_KEY_FIELDS
from penstock.core.guidelines.draft import PROCESS_ID_FIELD as PROCESS_ID_FIELD
from penstock.core.guidelines.guideline import Finding as Finding
from penstock.core.guidelines.guideline import Guideline as Guideline
from penstock.core.guidelines.rules import GUIDELINES as GUIDELINES
from penstock.core.guidelines.waivers import WAIVER_PREFIX as WAIVER_PREFIX
from penstock.core.guidelines.waivers import reason_for as reason_for
