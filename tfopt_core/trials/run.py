"""Train once in a worker process, and return the figures of the run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from time import perf_counter_ns
from typing import Any, cast

import attrs

from tfopt_core.errors import ClusterError
from tfopt_core.hooks.context import JOIN_SECONDS, Cluster, RunContext, Serve, name_of
from tfopt_core.lazy import tf
from tfopt_core.recipe.table import to_json
from tfopt_core.training.build import Built, build, load
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.clock import running_ns
from tfopt_core.training.distributed.serving import ending_together, facts_of_servers, serve
from tfopt_core.training.fit import train
from tfopt_core.training.fit_monitor import CutsShort
from tfopt_core.training.messages import Answer, ClusterJoined, RunReport, Tell
from tfopt_core.training.runtime import seen_by_tensorflow, start_tensorflow
from tfopt_core.training.strategy import Joined, exchanged, join
from tfopt_core.trials.request import with_settings
from tfopt_core.workers.task import LookTask, OthersServed, ProcessStarted, RunTask
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes
from tfopt_core.workers.turns import Pacing, Turn, first_warm_steps

# How long a worker that refuses to train stays for the others.
LAST_SECONDS = 1.0


def pacing_of(task: RunTask, run: RunContext, turn: Turn | None, fit: int = 0) -> CutsShort | None:
    """Return what stops a run of a task for others and cuts it short; None if nothing does.

    :param turn: the turns of the process, None where it takes none.
    :param fit: how many fits of a script came before.
    """
    if task.expendable:
        return first_warm_steps
    if task.warm_seconds is None and turn is None:
        return None
    known = fit < len(task.fit_seconds)
    warm_seconds = task.fit_seconds[fit] if known else task.warm_seconds
    return Pacing(
        epochs=run.epochs, steps_per_epoch=run.steps_per_epoch, warm_seconds=warm_seconds, turn=turn
    )


def run(task: RunTask, tell: Tell, joined: Joined | None = None) -> RunReport:
    """Train once, and return what was observed.

    :param joined: a strategy that was built first.
    """
    workload = load(task.job)
    # joining the other processes is part of the training's time
    joining = 0 if joined is None else joined.nanoseconds
    started = running_ns() - joining
    built = build(task.job, workload, joined=joined)
    if joined is not None:
        check_built(built)
    turn = Turn(tell) if task.in_turns else None
    cuts_short = None if joined is not None else pacing_of(task, built.run, turn)
    chief = built.run.cluster is None or built.run.cluster.is_chief
    checkpointer = (
        None if task.checkpoints is None else Checkpointer(task.checkpoints, tell, writes=chief)
    )
    outcome = train(built, started, tell, cuts_short, checkpointer)
    if joined is not None and joined.cluster is not None:
        outcome = attrs.evolve(outcome, cluster_seconds=joining / 1e9)
    effects = built.stack.report_effects(built.run, built.model)
    peak_rss, peak_device = peak_rss_bytes(), peak_device_bytes()
    if task.save_to is not None and chief:
        built.stack.unwrap(built.model).save(task.save_to)
    return RunReport(
        wall_seconds=outcome.wall_seconds,
        peak_rss_bytes=peak_rss,
        peak_device_bytes=peak_device,
        cpu_seconds=cpu_seconds(),
        effects=effects,
        fits=(outcome,),
    )


def carry_out(task: RunTask | LookTask, tell: Tell) -> Answer:
    """Start TensorFlow and carry out the task. Return the last message."""
    first = isinstance(task, RunTask) and task.job.runtime.builds_strategy_first
    start_tensorflow(task.job.runtime, debug=task.debug, devices=not first)
    task = attrs.evolve(task, job=seen_by_tensorflow(task.job))
    tell(ProcessStarted())
    if isinstance(task, LookTask):
        return cast(Answer, resolve_name(task.look)(task, tell, load))

    if not first:
        return run(task, tell)
    begun = perf_counter_ns()
    result = join_cluster(task, tell)
    if result is None:
        return OthersServed()
    task, joined = result[0], attrs.evolve(result[1], nanoseconds=perf_counter_ns() - begun)
    with ending_together(joined.cluster):
        return run(task, tell, joined)


def join_cluster(task: RunTask, tell: Tell) -> tuple[RunTask, Joined] | None:
    """Build the strategy, and take the chief's seed and settings.

    :returns: the task with the chief's seed and settings, and the strategy; None in a process that
        has served the others until they ended.
    :raises ClusterError: if the processes do not connect, or would train differently.
    """
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
    start = "none are kept"
    if task.checkpoints is not None:
        start = f"from {task.checkpoints.start or 'the beginning'}"
    own = {
        "facts": {**task.facts, "checkpoints": start},
        "seed": job.seed,
        "settings": {stacked.name: to_json(stacked.settings) for stacked in job.plugins},
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


def check_built(built: Built) -> None:
    """Check that all workers make the same steps: on batches of one size, with one model.

    A worker that ends an epoch before the others leaves them waiting for ever.

    :raises ClusterError: naming what differs; each worker raises the same.
    """
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


def check_agreement(
    cluster: Cluster,
    facts_by_rank: Sequence[Mapping[str, Any]],
    heading: str = "the workers do not train the same; start all with one recipe and the same code",
) -> None:
    """Check that all workers train the same: recipe, code, versions, checkpoints.

    :param facts_by_rank: each worker's facts by name, in the order of ranks.
    :raises ClusterError: naming every difference, with the workers; each of them raises the same.
    """
    names = [name_of(job, index) for job, index in cluster.workers]
    lines = []
    for fact in dict.fromkeys(key for facts in facts_by_rank for key in facts):
        values = [facts.get(fact, "absent") for facts in facts_by_rank]
        others = [n for n, value in zip(names, values, strict=True) if value != values[0]]
        if others:
            lines.append(f"{fact}: {_shown(values[0])} on {names[0]}, " + ", ".join(
                f"{_shown(value)} on {name}"
                for name, value in zip(names, values, strict=True) if name in others
            ))  # fmt: skip
    if lines:
        # the end of this process would break what another worker still receives of the facts
        time.sleep(LAST_SECONDS)
        raise ClusterError("\n".join([heading, *lines]))


def _shown(value: Any) -> str:
    text = str(value)
    return f"{text[:8]}..." if len(text) == 64 else text
