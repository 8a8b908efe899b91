"""The input pipeline as data: plans, their stages, and how they become `tf.data`."""

from tfopt_core.data import stages
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import *  # noqa: F403  (its `__all__` is the one list of stages)

__all__ = ["DataPlan"]
__all__ += stages.__all__
