"""The task of an export's process for a factory: a dry build, then the program."""

from __future__ import annotations

import attrs

from tfopt_core.export.written import written
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Tell
from tfopt_core.records.program import Exported
from tfopt_core.training.job import Job
from tfopt_core.training.timing.devices import as_tensorflow_sees
from tfopt_core.trials.dry_build import prepare
from tfopt_core.trials.looks import Load
from tfopt_core.trials.request import with_settings
from tfopt_core.workers.task import ExportTask


def exported(task: ExportTask, tell: Tell, load: Load) -> Exported:
    """Return the result of the dry build, and the program beside it."""
    prepared = prepare(task, load)
    job = attrs.evolve(resolved(task.job, prepared), machine=as_tensorflow_sees(task.job.machine))
    return Exported(prepared, written(job, load(job)))


def resolved(job: Job, prepared: Prepared) -> Job:
    """Return the job with the settings that a dry build has found."""
    settings = [plan.settings for plan in prepared.plugins]
    return attrs.evolve(job, plugins=with_settings(job.plugins, settings))
