"""The private members of TensorFlow and Keras that tfopt uses, and the features that need them.

`features` is the list; `lookup` checks which members the installed versions have. Code calls
`why_without` before it uses a member, and disables the feature if a member is missing.
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
