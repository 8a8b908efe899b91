"""One process of several joins the others, and agrees with them on what is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster, Serve
from tfopt_core.hooks.cluster import JOIN_SECONDS
from tfopt_core.hooks.settings import plain
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measure.task import Task
from tfopt_core.training.distributed.agreement import check_agreement, exchanged
from tfopt_core.training.distributed.joined import Joined, join
from tfopt_core.training.distributed.serving import said_by_servers, serve

Send = Callable[[dict[str, Any]], None]

# Workers may run on machines of different kinds; what they train must be the same.
OF_THE_MACHINE = frozenset({"CPU", "memory", "GPUs"})


def shared_facts(fingerprint: Mapping[str, str], recipe_sha256: str, root: str) -> dict[str, str]:
    """What must be the same for all workers of a training, by name.

    :param fingerprint: what a measurement depends on, see `tfopt_core.measure.fingerprint`.
    :param root: the folder of the recipe, which may lie elsewhere on another machine.
    """
    facts = {"recipe": recipe_sha256}
    for name, value in fingerprint.items():
        if name not in OF_THE_MACHINE:
            facts[name.replace(root, ".")] = value
    return facts


def join_cluster(task: Task, send: Send) -> tuple[Task, Joined] | None:
    """Build the strategy, and take the chief's seed and settings.

    :returns: the task as all workers carry it out, and what was joined; None in a process that
        has served the others, who have ended.
    :raises ClusterError: if they do not come together, or would train different things.
    """
    job = task.job
    joined = join(job, send)
    if isinstance(joined, Serve):
        options = job.runtime.cluster
        serve(joined, task.facts, JOIN_SECONDS if options is None else options.join_seconds)
        return None
    cluster = joined.cluster
    if cluster is None:
        return task, joined
    if cluster.coordinated:
        _compare_with_servers(cluster, task.facts)
        return task, joined
    own = {
        "facts": {**task.facts, "checkpoint": _checkpoint(task)},
        "seed": job.seed,
        "settings": {stacked.name: plain(stacked.settings) for stacked in job.plugins},
    }
    said = exchanged(joined.strategy, own)
    check_agreement(cluster, [document["facts"] for document in said])
    chief = said[0]
    plugins = tuple(_with_settings(p, chief["settings"][p.name]) for p in job.plugins)
    job = attrs.evolve(job, seed=chief["seed"], plugins=plugins)
    return attrs.evolve(task, job=job), joined


def _checkpoint(task: Task) -> str:
    """What the training goes on from: all must see the same files."""
    return "none" if task.keeping is None else task.keeping.start or "none"


def _compare_with_servers(cluster: Cluster, facts: Mapping[str, Any]) -> None:
    for name, said in said_by_servers(cluster):
        different = [fact for fact in {**facts, **said} if facts.get(fact) != said.get(fact)]
        if different:
            raise ClusterError(
                f"{name} was started with another {', '.join(different)} than the chief; start "
                "all with one recipe and the same code"
            )


def _with_settings(stacked: StackedPlugin, settings: Mapping[str, Any]) -> StackedPlugin:
    """The plugin with the chief's settings: "auto" may have been resolved otherwise here."""
    fields = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    return StackedPlugin(stacked.name, attrs.evolve(stacked.plugin, **fields))
