"""The event guidelines as rules, which a definition of an event type keeps, breaks, or waives with a reason."""

from penstock.schema.guidelines.checks import WAIVER_PREFIX as WAIVER_PREFIX
from penstock.schema.guidelines.checks import check as check
from penstock.schema.guidelines.checks import reason_for as reason_for
from penstock.schema.guidelines.draft import ENTITY_KEY_FIELDS as ENTITY_KEY_FIELDS
from penstock.schema.guidelines.draft import PROCESS_ID_FIELD as PROCESS_ID_FIELD
from penstock.schema.guidelines.rules import GUIDELINES as GUIDELINES
from penstock.schema.guidelines.rules import Guideline as Guideline
from penstock.schema.guidelines.rules import GuidelineFinding as GuidelineFinding
