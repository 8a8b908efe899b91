"""From settings and environment to TensorFlow's own cluster resolvers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfopt_core.plugins import PluginRefused
from tfopt_distribute.roles import checked_tf_config, own_place, slurm_jobs

ClusterKind = Literal["auto", "tf-config", "slurm", "addresses"]
CLUSTER_KINDS: tuple[ClusterKind, ...] = ("auto", "tf-config", "slurm", "addresses")
PROTOCOL = "grpc"


def cluster_kind(
    asked: ClusterKind, environment: Mapping[str, str], addresses: Sequence[str]
) -> Literal["tf-config", "slurm", "addresses"]:
    """What describes the cluster.

    :raises PluginRefused: if nothing does, or what is asked for is not there.
    """
    there: dict[Literal["tf-config", "slurm", "addresses"], bool] = {
        "tf-config": bool(environment.get("TF_CONFIG")),
        "slurm": "SLURM_PROCID" in environment,
        "addresses": bool(addresses),
    }
    if asked != "auto":
        if there[asked]:
            return asked
        missing = {
            "tf-config": "TF_CONFIG is not set; set it, or start all workers on this machine by "
            "`tfopt launch`",
            "slurm": "SLURM_PROCID is not set; start the training by `srun` within a Slurm job",
            "addresses": 'there are no addresses; set addresses = ["host:port", ...]',
        }
        raise PluginRefused(f'cluster = "{asked}", but {missing[asked]}')
    for kind, is_there in there.items():
        if is_there:
            return kind
    if "SLURM_JOB_ID" in environment:
        raise PluginRefused(
            "this is a Slurm job, but no step of it; start the training by `srun tfopt train ...`"
        )
    raise PluginRefused(
        'needs TF_CONFIG, Slurm or "addresses", found none; `tfopt launch` starts all workers on '
        "this machine"
    )


def resolver(
    *,
    asked: ClusterKind,
    roles: Sequence[str],
    jobs: Mapping[str, int | None],
    addresses: Sequence[str],
    port: int,
    environment: Mapping[str, str],
) -> Any:
    """A `tf.distribute.cluster_resolver.ClusterResolver` that knows this process' role.

    :param roles: the jobs that TF_CONFIG may name.
    :param jobs: how many processes of which job there are under Slurm and by addresses, in the
        order of `addresses`; None stands for all that are left. Nothing else is guessed.
    :param port: the first port that processes under Slurm listen on.
    :raises PluginRefused: before TensorFlow would wait for a cluster that cannot come.
    """
    import tensorflow as tf

    kind = cluster_kind(asked, environment, addresses)
    if kind == "tf-config":
        checked_tf_config(environment["TF_CONFIG"], roles)
        return tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer=PROTOCOL)
    if kind == "slurm":
        return _of_slurm(slurm_jobs(jobs, environment), port)
    job, index, by_job = own_place(addresses, jobs, environment)
    return _simple(tf.train.ClusterSpec(by_job), job, index)


def _of_slurm(jobs: Mapping[str, int], port: int) -> Any:
    """The cluster as TensorFlow's resolver reads it from Slurm's variables.

    The GPUs of a process are those that Slurm shows it. TensorFlow's resolver would share out all
    GPUs of the node instead, needs `nvidia-smi` for it, and fails on a node without any.
    """
    import tensorflow as tf

    try:
        # one pretended GPU each, since the resolver gives a task that has none no address
        tasks = sum(jobs.values())
        read = tf.distribute.cluster_resolver.SlurmClusterResolver(
            jobs=dict(jobs), port_base=port, gpus_per_node=tasks, gpus_per_task=1,
            auto_set_gpu=False, rpc_layer=PROTOCOL,
        )  # fmt: skip
        cluster = read.cluster_spec()
        job, index = read.get_task_info()
    except (RuntimeError, ValueError) as error:
        raise PluginRefused(
            f"Slurm's variables do not describe the cluster ({error}); start the training by "
            "`srun` within a Slurm job, or set TF_CONFIG"
        ) from error
    return _simple(cluster, job, index)


def _simple(cluster: Any, job: str, index: int) -> Any:
    import tensorflow as tf

    # unlike TFConfigClusterResolver this one counts no GPUs itself
    gpus = len(tf.config.list_physical_devices("GPU"))
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster,
        task_type=job,
        task_id=index,
        num_accelerators={"GPU": gpus} if gpus else {},
        rpc_layer=PROTOCOL,
    )
