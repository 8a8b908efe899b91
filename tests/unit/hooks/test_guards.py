"""Each guard of the contract: what it catches, whom it names, what it tells to do."""

import dataclasses
import re

import attrs
import pytest

from tfopt_core.data import Batch, DataPlan, MapExamples, Repeat
from tfopt_core.errors import PluginDefinitionError, PluginError, StageError, cure_of, describe
from tfopt_core.hooks.contract import check_class
from tfopt_core.hooks.plugin_class import guarded
from tfopt_core.hooks.values import Change
from tfopt_core.plugins import (
    Effect,
    Plugin,
    PluginRefused,
    RuntimeOptions,
    TrainingOptions,
    hookimpl,
    plugin,
)
from tfopt_core.testing import make_machine, make_run, stack_of
from tfopt_core.workers.task import failure_of

MACHINE = make_machine()


def plugin_of(name, **members):
    """A plugin of this class name: functions are its hooks, what else is given its attributes."""
    hooks = {key: hookimpl(one) for key, one in members.items() if callable(one)}
    return plugin(type(name, (Plugin,), {**members, **hooks}))()


@plugin
class AddsThread(Plugin):
    @hookimpl
    def configure_runtime(self, options):
        return attrs.evolve(options, intra_op_threads=(options.intra_op_threads or 0) + 1)


@plugin
class DoublesThreads(Plugin):
    @hookimpl
    def configure_runtime(self, options):
        return attrs.evolve(options, intra_op_threads=options.intra_op_threads * 2)


def test_a_stack_a_b_is_b_of_a_of_the_default_and_the_change_of_each_is_noted():
    start = RuntimeOptions(intra_op_threads=3)
    stack = stack_of(AddsThread(), DoublesThreads(), configure_runtime=start)
    assert stack.configure_runtime(MACHINE, None).intra_op_threads == (3 + 1) * 2
    for name, said in (("AddsThread", "3 -> 4"), ("DoublesThreads", "4 -> 8")):
        [change] = stack.changes(name)
        assert change.describe() == (f"intra_op_threads: {said}",)
    stack = stack_of(DoublesThreads(), AddsThread(), configure_runtime=start)
    assert stack.configure_runtime(MACHINE, None).intra_op_threads == 3 * 2 + 1


def test_no_effect_is_certain_before_a_training_only_of_hooks_that_just_return_values():
    leaves = {
        "configure_runtime": lambda self, options: options,
        "report_effect": lambda self: Effect.not_applied("there is nothing to do"),
    }
    stack = stack_of(
        plugin_of("LeavesAll", **leaves),
        AddsThread(),
        plugin_of("ActsLater", **leaves, on_epoch_end=lambda self: None),
        plugin_of("ChangesTheModel", **leaves, model_change="in-place"),
        plugin_of("MayChangeTheModel", **leaves, wrap_model=lambda self, model: model),
        plugin_of(
            "NeedsATraining", **{**leaves, "report_effect": lambda self, model: model.history}
        ),
        configure_runtime=RuntimeOptions(),
    )
    stack.configure_runtime(MACHINE, None)
    assert stack.without_effect(make_run(), None) == {"LeavesAll": "there is nothing to do"}


@pytest.mark.promise(25, injected="hooks that return nothing, and a number")
@pytest.mark.parametrize(
    ("hook", "returned", "said"),
    [
        ("configure_runtime", None, "returned nothing; return a RuntimeOptions"),
        ("configure_runtime", 3, "returned type int; return a RuntimeOptions"),
        ("build_strategy", None, "returned nothing; return a tf.distribute.Strategy"),
        ("report_effect", True, "returned type bool; return an Effect"),
    ],
)
def test_a_wrong_return_names_plugin_and_hook_and_what_is_wanted(hook, returned, said):
    stack = stack_of(plugin_of("Wrong", **{hook: lambda self: returned}))
    calls = {
        "configure_runtime": lambda: stack.configure_runtime(MACHINE, None),
        "build_strategy": lambda: stack.build_strategy(make_run()),
        "report_effect": lambda: stack.report_effects(make_run(), None),
    }
    with pytest.raises(PluginError, match=re.escape(f'"Wrong", hook "{hook}": {said}')):
        calls[hook]()


def test_what_is_made_of_a_changed_value_is_blamed_on_the_plugin_that_changed_it():
    def misname(self, options):
        return attrs.evolve(options, optimizer="adamm")

    options = TrainingOptions(optimizer="adam", loss="mse")
    misnames = plugin_of("Misnames", configure_training=misname)
    stack = stack_of(misnames, configure_training=options)
    with pytest.raises(ValueError, match="adamm"), stack.blamed("configure_training"):
        raise ValueError("no adamm")  # nobody changed anything yet
    stack.configure_training(make_run(), None)
    words = '"Misnames", hook "configure_training": returned what raised ValueError: no adamm'
    with pytest.raises(PluginError, match=words), stack.blamed("configure_training"):
        raise ValueError("no adamm")


def test_an_optimizer_is_shown_with_the_settings_that_are_not_its_usual_ones():
    class Adam:
        learning_rate, name = 0.001, "adam"

        def __init__(self, **given):
            self.given = given

        def get_config(self):
            return {"name": self.name, "global_clipnorm": None, "rate": 0.1, **self.given}

    schedule = {"class_name": "CosineDecay", "config": {}}
    options = TrainingOptions(optimizer="adam", loss="mse")
    clipped = attrs.evolve(options, optimizer=Adam(global_clipnorm=1.0, rate=schedule))
    change = Change("clip", "configure_training", options, clipped)
    assert change.describe() == ("optimizer: adam -> Adam(global_clipnorm=1, rate=CosineDecay)",)
    assert attrs.evolve(change, after=attrs.evolve(options, optimizer=Adam())).describe() == (
        "optimizer: adam -> Adam",
    )


def test_an_exception_names_plugin_hook_and_cause():
    def fail(self):
        raise KeyError("threads")

    place = rf"at {re.escape(__file__)}:\d+$"
    with pytest.raises(PluginError, match=f"raised KeyError: 'threads'; {place}") as caught:
        stack_of(plugin_of("Fails", configure_runtime=fail)).configure_runtime(MACHINE, None)
    assert (caught.value.plugin, caught.value.hook) == ("Fails", "configure_runtime")
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_stage_that_fails_names_the_plugin_that_put_it_there_not_the_last_one():
    given = DataPlan.from_arrays([1, 2])
    stack = stack_of(
        plugin_of("Batches", build_dataset=lambda self, plan: plan.append(Batch(size=2))),
        plugin_of("Repeats", build_dataset=lambda self, plan: plan.append(Repeat(count=2))),
        build_dataset=given,
    )
    plan = stack.build_dataset(make_run(), "train")
    named = r'"Batches", hook "build_dataset": the data stage batch.* raised ValueError'
    with pytest.raises(PluginError, match=named), stack.blamed("build_dataset"):
        raise StageError(plan.stages[1], "raised ValueError: no")
    with pytest.raises(StageError), stack.blamed("build_dataset"):
        raise StageError(given.source, "raised ValueError: no")


def test_an_error_of_a_training_says_what_plugins_put_into_its_data_and_steps():
    def fails(x):
        raise ValueError

    def map_in_parallel(self, plan):
        return plan.replace(1, attrs.evolve(plan.stages[1], parallel=2))

    def judge(self, options):
        return attrs.evolve(options, optimizer="sgd", loss="mae")

    given = {"build_dataset": DataPlan.from_arrays([1, 2]),
             "configure_training": TrainingOptions(optimizer="adam", loss="mse")}  # fmt: skip
    stack = stack_of(
        plugin_of(
            "Maps", build_dataset=lambda self, plan: plan.append(MapExamples(function=fails))
        ),
        plugin_of("InParallel", build_dataset=map_in_parallel),
        plugin_of("Judges", configure_training=judge),
        **given,
    )
    stack.build_dataset(make_run(), "train")
    stack.configure_training(make_run(), None)
    with pytest.raises(RuntimeError) as caught, stack.changes_noted():
        raise RuntimeError("no labels.")
    assert re.fullmatch(
        'raised RuntimeError: no labels; plugin "Maps" put map_examples: .* into the train data; '
        'plugin "Judges" has changed loss: mse -> mae', describe(caught.value),
    )  # fmt: skip


def test_a_refusal_is_bad_input_and_names_the_plugin():
    def refuse(self):
        raise PluginRefused("this machine has no abacus")

    stack = stack_of(plugin_of("Refuses", configure_runtime=refuse))
    with pytest.raises(PluginRefused, match='plugin "Refuses": this machine has no abacus') as c:
        stack.configure_runtime(MACHINE, None)
    assert c.value.exit_code == 2


def test_a_refusal_that_names_its_plugin_already_is_not_its_own_cause():
    refusal = PluginRefused("this machine has no abacus", "Other")

    def refuses():
        raise refusal

    with pytest.raises(PluginRefused, match='"Other"') as caught:
        guarded("Resolves", "resolve", refuses)
    assert caught.value is refusal
    assert refusal.__cause__ is None


@pytest.mark.parametrize("option", ["tryfirst", "trylast", "wrapper", "hookwrapper"])
def test_a_plugin_cannot_jump_the_queue(option):
    @plugin
    class Jumps(Plugin):
        @hookimpl(**{option: True})
        def configure_runtime(self, options):
            yield options

    with pytest.raises(PluginDefinitionError, match=f"takes {option}, but the recipe's order dec"):
        stack_of(Jumps())


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (attrs.frozen(type("ByValue", (Plugin,), {})), "compares by value; decorate it with @plug"),
        (attrs.define(eq=False)(type("Mutable", (Plugin,), {})), "not frozen"),
        (type("Undecorated", (Plugin,), {}), "decorate it with @plugin"),
        (type("Plain", (), {}), "does not derive from Plugin"),
        (lambda: None, "names a function, not a class"),
        (plugin(type("Empty", (Plugin,), {})), "implements no hook"),
        (plugin(type("Unmarked", (AddsThread,), {"on_epoch_end": lambda self, logs: None})),
         "named like a hook but not marked"),
        (plugin(type("Odd", (AddsThread,), {"role": "watcher"})), 'role: expected "optimization"'),
        (plugin(type("Odd", (AddsThread,), {"targets": ("gpu",)})), r'targets\[0\]: expected "inp'),
        (plugin(type("Odd", (AddsThread,), {"before": "cache"})), "before: expected an array of"),
    ],
)  # fmt: skip
def test_a_class_that_breaks_the_contract_is_refused(refused, said):
    with pytest.raises(PluginDefinitionError, match=said):
        check_class("odd", refused)


@pytest.mark.parametrize(("name", "owner"), [("enabled", "recipe"), ("after", "plugin")])
def test_a_setting_whose_name_is_reserved_is_refused(name, owner):
    takes = attrs.make_class(
        "Takes", {name: attrs.field(default=1)}, (Plugin,), frozen=True, eq=False
    )
    with pytest.raises(PluginDefinitionError, match=f'"{name}", which every {owner} reserves'):
        check_class("takes", takes)


@pytest.mark.promise(25, injected="a hook with a typing error in its name, an unknown argument")
@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"build_datasets": lambda self, run, plan: plan}, 'did you mean "build_dataset"'),
        ({"build_dataset": lambda self, run, splits, plan: plan},
         'no argument "splits"; it may take: run, split, plan'),
    ],
)  # fmt: skip
def test_a_misspelt_hook_or_argument_is_named_with_the_right_ones(hooks, said):
    with pytest.raises(PluginDefinitionError, match=said):
        stack_of(plugin_of("Misspelt", **hooks))


@pytest.mark.parametrize(
    ("written", "meant"),
    [("sugest", "suggest"), ("equivalance", "equivalence"), ("target", "targets")],
)
def test_a_misspelt_name_of_the_base_class_is_named_with_the_right_one(written, meant):
    misspelt = plugin(type("Misspelt", (AddsThread,), {written: "exact"}))
    with pytest.raises(PluginDefinitionError, match=f'"{written}"; did you mean "{meant}"'):
        check_class("misspelt", misspelt)


@plugin
class Owns(Plugin):
    @hookimpl
    def build_strategy(self, run):
        return "a strategy"


def test_two_owners_of_the_strategy_conflict():
    class OwnsToo(Owns):
        pass

    words = '"OwnsToo", hook "build_strategy": "Owns" builds the distribution strategy too'
    with pytest.raises(PluginDefinitionError, match=words):
        stack_of(Owns(), OwnsToo())


def test_state_is_private_to_a_plugin_and_a_run():
    @plugin
    class Keeps(Plugin):
        word: str = "first"

        @hookimpl
        def configure_precision(self, run, policy):
            assert run.state_of(self) == {}
            run.state_of(self)["word"] = self.word
            return policy

        @hookimpl
        def report_effect(self, run):
            return Effect.applied_as(run.state_of(self)["word"])

    class KeepsToo(Keeps):
        pass

    stack = stack_of(Keeps(), KeepsToo(word="second"))
    for run in (make_run(), make_run()):
        stack.configure_precision(run)
        effects = stack.report_effects(run, None)
        assert [effect.detail for effect in effects.values()] == ["first", "second"]


def test_without_a_report_a_plugin_is_applied_if_its_hook_changed_something():
    idle = plugin_of("Idle", configure_runtime=lambda self, options: options)
    stack = stack_of(AddsThread(), idle)
    stack.configure_runtime(MACHINE, None)
    effects = stack.report_effects(make_run(), None)
    assert effects["AddsThread"] == Effect(True, "intra_op_threads: None -> 1")
    assert effects["Idle"] == Effect(False, "its hooks changed nothing")


def test_unwrap_goes_from_the_last_plugin_to_the_first():
    @plugin
    class Wraps(Plugin):
        @hookimpl
        def wrap_model(self, model):
            return model

        def unwrap(self, model):
            return [*model, type(self).__name__]

    class WrapsToo(Wraps):
        pass

    assert stack_of(Wraps(), WrapsToo()).unwrap([]) == ["WrapsToo", "Wraps"]


def test_an_error_is_described_by_its_cause_and_not_by_tensorflow_s_frames():
    message = (
        "Graph execution error:\n\nDetected at node IteratorGetNext defined at (most recent call "
        'last):\n  File "<stdin>", line 8, in <module>\n\n'
        + '  File "/x/trainer.py", line 1\n' * 90
        + "/cache_0.lockfile; No such file or directory\n\t [[{{node IteratorGetNext}}]] "
        "[Op:__inference_multi_step_on_iterator_493]"
    )  # fmt: skip
    assert describe(OSError(message)) == (
        "raised OSError: /cache_0.lockfile; No such file or directory"
    )


def test_the_bold_of_keras_messages_is_left_out():
    error = TypeError("Exception encountered.\n\n\x1b[1mInput 'y' is float32.\x1b[0m\n")
    assert describe(error) == "raised TypeError: Exception encountered. Input 'y' is float32."


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    text: str


@pytest.mark.promise(25, injected="a hook that raises an error on which nothing can be set")
def test_an_error_that_takes_no_note_names_plugin_and_hook_all_the_same():
    def fail(self, model):
        raise Frozen("no model")

    stack = stack_of(plugin_of("Fails", wrap_model=fail), wrap_model=object())
    with pytest.raises(PluginError, match='"Fails", hook "wrap_model": raised Frozen: no model'):
        stack.wrap_model(make_run())


def test_the_notes_of_an_error_stand_in_its_line_in_short():
    error = ValueError("no rows")
    error.__notes__ = [*"abcdefgh", "\x1b[31mfirst\nsecond", 3, "long " * 1000]
    described = describe(error)
    assert described.startswith("raised ValueError: no rows; f; g; h; first second; 3; long long")
    assert len(described) < 400
    error.__notes__ = "no list"
    assert describe(error) == "raised ValueError: no rows"


def test_a_known_failure_of_the_machine_says_what_helps_however_long_its_message():
    words = "Autotuner could not find any supported configs"
    error = RuntimeError(f"{'a graph ' * 100}{words}")
    cure = cure_of(str(error))
    assert cure is not None
    assert "'nvidia-cudnn-cu12>=9.24,<10'" in cure
    assert "compile(jit_compile=False)" in cure
    assert describe(error).endswith(f" ...; {cure}")
    assert failure_of(error).message == describe(error)
    assert cure_of("another message") is None
