"""Who a process is in a cluster: TF_CONFIG, Slurm, addresses, and every way to say it wrongly."""

import json
from functools import partial

import pytest
from support.lazy_modules import tf
from tfopt_distribute.roles import (
    ADDRESS_INDEX,
    checked_tf_config,
    cluster_kind,
    own_place,
    resolver,
    slurm_jobs,
)
from tfopt_distribute.strategy_settings import announced_workers

from tfopt_core.plugins import Cluster, PluginRefused

TWO = {"worker": ["a:1", "b:1"]}
SERVED = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
TRAINING, COORDINATED = ("chief", "worker"), ("chief", "worker", "ps")
WORKERS = {"worker": None}
# What srun sets for the second of two tasks on each of two nodes.
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


def config(cluster, job="worker", index=0):
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@pytest.mark.parametrize(
    ("asked", "environment", "kind"),
    [
        ("auto", {"TF_CONFIG": "{}", "SLURM_PROCID": "0"}, "tf-config"),
        ("auto", {"SLURM_PROCID": "0"}, "slurm"),
        ("auto", {}, "addresses"),
        ("slurm", {"TF_CONFIG": "{}", "SLURM_PROCID": "0"}, "slurm"),
        ("addresses", {"TF_CONFIG": "{}", "SLURM_PROCID": "0"}, "addresses"),
    ],
)
def test_auto_takes_tf_config_then_slurm_then_addresses_unless_one_is_asked_for(
    asked, environment, kind
):
    assert cluster_kind(asked, environment, ["a:1"]) == kind


# What is asked for, and words of the error that says what to mend.
REFUSED = [
    (lambda: cluster_kind("auto", {}, ()),
     r'needs TF_CONFIG, Slurm or "addresses", found none; `tfopt launch` starts'),
    (lambda: cluster_kind("tf-config", {"SLURM_PROCID": "0"}, ()), "TF_CONFIG is not set; set it"),
    (lambda: cluster_kind("addresses", {"TF_CONFIG": "{}"}, ()),
     r"there are no addresses; set addresses = \["),
    *((partial(checked_tf_config, text, TRAINING), said) for text, said in [
        ("{", "is no JSON"),
        (json.dumps({"cluster": TWO, "task": {"type": "worker"}}), 'does not say which "task"'),
        (config(TWO, index=2), r'worker 2, but its "cluster" has 2 of them, counted from 0'),
        (config(TWO, job="evaluator"), "validation runs within the training"),
        (config(SERVED), "use parameter-server"),
        (config({"chief": ["a:1", "b:1"]}, job="chief"), "2 chiefs; there can be one"),
        (config({"worker": ["a:1", "a:1"]}), "names a:1 twice"),
    ]),
    *((partial(checked_tf_config, config(rest, job=next(iter(rest))), COORDINATED),
       f'names no "{missing}"; .* needs a chief')
      for missing in SERVED
      for rest in [{job: at for job, at in SERVED.items() if job != missing}]),
    (lambda: slurm_jobs({"chief": 1, "worker": 3, "ps": 1}, SLURM),
     "the Slurm step has 4 tasks; set --ntasks to 5: 1 chief"),
    (lambda: slurm_jobs(WORKERS, {"SLURM_PROCID": "0"}), "no step of it"),
    *((partial(own_place, addresses, WORKERS, environment), said)
      for addresses, environment, said in [
          (["localhost:1", "localhost:2"], {}, "2 of the .* of this machine, so it is unclear"),
          (["192.0.2.7:1", "192.0.2.8:1"], {}, f"none of .*variable {ADDRESS_INDEX}"),
          (["a:1", "b:1"], {ADDRESS_INDEX: "2"}, "0 to 1"),
          (["a:1", "b:1"], {ADDRESS_INDEX: "one"}, 'is "one"; set it to the place'),
    ]),
    (lambda: own_place(["a:1", "b:1", "c:1"], {"chief": 1, "worker": 2, "ps": 1}, {}),
     'there are 3 addresses; set "addresses" to 4: 1 chief'),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "said"), REFUSED)
def test_a_cluster_that_is_unclear_or_would_make_tensorflow_wait_is_refused(asked, said):
    with pytest.raises(PluginRefused, match=said):
        asked()


def test_roles_under_slurm_are_those_of_the_settings():
    assert slurm_jobs({"worker": None}, SLURM) == {"worker": 4}
    jobs = {"chief": 1, "worker": 2, "ps": 1}
    assert slurm_jobs(jobs, SLURM) == jobs


def test_the_own_address_is_that_of_this_machine_or_what_the_environment_says():
    addresses = ["elsewhere.invalid:1", "localhost:2", "192.0.2.7:3"]
    jobs = {"chief": 1, "worker": 1, "ps": 1}
    by_job = {"chief": addresses[:1], "worker": addresses[1:2], "ps": addresses[2:]}
    assert own_place(addresses, jobs, {}) == ("worker", 0, by_job)
    assert own_place(addresses, jobs, {ADDRESS_INDEX: "2"}) == ("ps", 0, by_job)
    job, index, _ = own_place(addresses, {"worker": None}, {ADDRESS_INDEX: "2"})
    assert (job, index) == ("worker", 2)


@pytest.mark.parametrize(
    ("environment", "workers"),
    [
        ({"TF_CONFIG": config(TWO)}, 2),
        ({"TF_CONFIG": config({"chief": ["a:1"], "worker": ["b:1", "c:1"]})}, 3),
        ({"TF_CONFIG": '{"cluster": 3}'}, 7),
        ({}, 7),
    ],
)
def test_before_the_cluster_is_joined_the_environment_tells_the_number_of_workers(
    environment, workers
):
    assert announced_workers(environment, (), 7) == workers
    assert announced_workers({}, ("a:1", "b:1", "c:1"), 7) == 3


# TensorFlow's own resolvers; only what they read of the outside is set.


def resolved(environment, **changes):
    plain = {
        "asked": "auto", "roles": TRAINING, "jobs": {"worker": None}, "addresses": (), "port": 9000,
    }  # fmt: skip
    return Cluster.of(resolver(**{**plain, **changes}, environment=environment))


def test_tensorflows_resolver_reads_tf_config(monkeypatch):
    told = {"TF_CONFIG": config({"chief": ["a:1"], "worker": ["b:1"]}, index=0)}
    monkeypatch.setenv("TF_CONFIG", told["TF_CONFIG"])
    cluster = resolved(told)
    assert (cluster.name, cluster.rank, cluster.address) == ("worker 0", 1, "b:1")
    assert not cluster.is_chief


@pytest.mark.parametrize("rank", range(4))
def test_tensorflows_resolver_reads_slurm_without_a_gpu_and_without_nvidia_smi(monkeypatch, rank):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in (SLURM | {"SLURM_PROCID": str(rank)}).items():
        monkeypatch.setenv(name, value)
    cluster = resolved(SLURM)
    assert cluster.addresses == {"worker": ("node1:9000", "node1:9001", "node2:9000", "node2:9001")}
    assert (cluster.job, cluster.index) == ("worker", rank)
    jobs = {"chief": 1, "worker": 2, "ps": 1}
    served = resolved(SLURM, roles=COORDINATED, jobs=jobs)
    assert {job: len(there) for job, there in served.addresses.items()} == jobs
    assert (served.job, served.index) == [("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)][
        rank
    ]


def test_slurm_variables_that_contradict_each_other_are_refused(monkeypatch):
    for name, value in (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "oops"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PluginRefused, match=r"do not describe the cluster .*oops"):
        resolved(SLURM)


def test_a_resolver_of_addresses_knows_the_gpus_of_this_process(monkeypatch):
    told = {ADDRESS_INDEX: "1"}
    assert resolved(told, addresses=("a:1", "b:1")).name == "worker 1"
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one", "two"])
    found = resolver(
        asked="auto", roles=TRAINING, jobs={"worker": None}, addresses=("a:1", "b:1"), port=1,
        environment=told,
    )  # fmt: skip
    assert found.num_accelerators() == {"GPU": 2}
