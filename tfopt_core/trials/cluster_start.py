"""Join the other processes of a cluster, and agree with them on what to train."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster, Serve
from tfopt_core.hooks.context import JOIN_SECONDS
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.records.messages import ClusterJoined, Tell
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.cluster import check_agreement, exchanged
from tfopt_core.training.distributed.serving import facts_of_servers, serve
from tfopt_core.training.strategy import Joined, join
from tfopt_core.trials.request import with_settings
from tfopt_core.workers.task import RunTask


def join_cluster(task: RunTask, tell: Tell) -> tuple[RunTask, Joined] | None:
    """Build the strategy, and take the chief's seed and settings.

    :returns: the task with the chief's seed and settings, and the strategy; None in a process that
        has served the others until they ended.
    :raises ClusterError: if the processes do not connect, or would train differently.
    """
    begun = perf_counter_ns()
    result = _joined(task, tell)
    if result is None:
        return None
    task, joined = result
    return task, attrs.evolve(joined, nanoseconds=perf_counter_ns() - begun)


def _joined(task: RunTask, tell: Tell) -> tuple[RunTask, Joined] | None:
    job = task.job
    joined = join(job, tell)
    if isinstance(joined, Serve):
        options = job.runtime.cluster
        seconds = JOIN_SECONDS if options is None else options.join_seconds
        # once `ClusterJoined` is sent, the parent waits until the training ends
        serve(joined, task.facts, seconds, seen=lambda: tell(ClusterJoined()))
        return None
    cluster = joined.cluster
    if cluster is None:
        return task, joined
    if cluster.coordinated:
        _compare_with_servers(cluster, task.facts)
        return task, joined
    own = {
        "facts": {**task.facts, "checkpoints": _checkpoint(task)},
        "seed": job.seed,
        "settings": {stacked.name: plain(stacked.settings) for stacked in job.plugins},
    }
    documents = exchanged(joined.strategy, own)
    check_agreement(cluster, [document["facts"] for document in documents])
    chief = documents[0]
    # "auto" may have been resolved differently here
    plugins = with_settings(job.plugins, [chief["settings"][p.name] for p in job.plugins])
    # what a plugin noted while it built the strategy is that of the plugin that replaces it
    states = {
        new.plugin: joined.states[old.plugin]
        for old, new in zip(job.plugins, plugins, strict=True)
        if old.plugin in joined.states
    }
    job = attrs.evolve(job, seed=chief["seed"], plugins=plugins)
    return attrs.evolve(task, job=job), attrs.evolve(joined, states=states)


def _checkpoint(task: RunTask) -> str:
    """Return where the training resumes, as a fact to compare."""
    if task.checkpoints is None:
        return "none are kept"
    return f"from {task.checkpoints.start or 'the beginning'}"


def check_built(built: Built) -> None:
    """Check that all workers make the same steps: on batches of one size, with one model.

    A worker that ends an epoch before the others leaves them waiting for ever.

    :raises ClusterError: naming what differs; each worker raises the same.
    """
    import tensorflow as tf

    cluster = built.run.cluster
    if cluster is None or cluster.coordinated:
        return
    facts: dict[str, Any] = {"batch size": str(built.run.batch_size)}
    for split, data in built.run.datasets.items():
        steps = int(data.cardinality()) if isinstance(data, tf.data.Dataset) else -1
        facts[f"batches of the {split} data"] = str(steps) if steps >= 0 else "unknown"
    facts["shapes of a batch"] = shapes_in_words_of(built.run.element_spec)
    facts["model"] = hashlib.sha256(
        repr([(v.path, tuple(v.shape), v.dtype) for v in built.model.variables]).encode()
    ).hexdigest()
    facts_by_rank = exchanged(built.run.strategy, facts)
    check_agreement(
        cluster, facts_by_rank, "the workers would not make the same steps; give all the same data"
    )


def shapes_in_words_of(spec: Any) -> str:
    """Return the types and shapes of a batch's parts, without the number of rows."""
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    return ", ".join(f"{part.dtype.name}{list(part.shape)[1:]}" for part in parts
                     if isinstance(part, tf.TensorSpec))  # fmt: skip


def _compare_with_servers(cluster: Cluster, facts: Mapping[str, Any]) -> None:
    for name, theirs in facts_of_servers(cluster):
        different = [fact for fact in {**facts, **theirs} if facts.get(fact) != theirs.get(fact)]
        if different:
            raise ClusterError(
                f"{name} was started with another {', '.join(different)} than the chief; start "
                "all with one recipe and the same code"
            )
