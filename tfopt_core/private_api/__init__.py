"""Private members of TensorFlow and Keras: one list of all that are touched, and what needs them.

`features` is the list, `lookup` finds out which of its members the installed versions have. Code
asks `why_without` before it touches a member, and does without the feature where one is missing.
"""

from tfopt_core.private_api.features import FEATURES, Feature
from tfopt_core.private_api.lookup import (
    Lookup,
    all_missing,
    disabled_so_far,
    missing_members,
    why_without,
)

__all__ = [
    "FEATURES",
    "Feature",
    "Lookup",
    "all_missing",
    "disabled_so_far",
    "missing_members",
    "why_without",
]
