"""The private members that tfopt uses, by the feature that needs them.

A private member is one of `keras.src` or `tensorflow.python`, or an attribute of their objects
whose name begins with an underscore. `tests/unit/test_private_api.py` compares this list with the
code: it fails for a member that is used but not listed, and for one that is listed but not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

_DATA = "tensorflow.python.data.ops"
_DISTRIBUTE = "tensorflow.python.distribute"
_ADAPTERS = "keras.src.trainers.data_adapters"
_DATASET = f"{_DATA}.dataset_ops:DatasetV2"


class Feature(NamedTuple):
    """A feature of tfopt that uses private members.

    :param lost: what is lost if a member is missing, as a sentence without a full stop.
    :param members: by owner ("module" or "module:Class"), the names of its members, separated by
        spaces; "" if only the owner is used. Members of a class are attributes that it defines, or
        that its methods set on an instance.
    """

    lost: str
    members: Mapping[str, str]

    def each(self) -> Iterator[tuple[str, str]]:
        """Yield owner and name of each member; "" is the name if only the owner is used."""
        for owner, names in self.members.items():
            for name in names.split() or [""]:
                yield owner, name


# The classes of tf.data's steps in `tensorflow.python.data.ops`, and what is read of them.
_STEPS = {
    "from_tensor_slices_op:_TensorSliceDataset": "_tensors",
    "from_tensors_op:_TensorDataset": "_tensors",
    "range_op:_RangeDataset": "_start _stop _step",
    "dataset_ops:_VariantDataset": "",
    "zip_op:_ZipDataset": "_datasets",
    "concatenate_op:_ConcatenateDataset": "_dataset_to_concatenate _input_dataset",
    "readers:TextLineDatasetV2": "_impl",
    "readers:TFRecordDatasetV2": "_impl",
    "readers:FixedLengthRecordDatasetV2": "_impl",
    "map_op:_MapDataset": "_force_synchronous _map_func _preserve_cardinality",
    "map_op:_ParallelMapDataset": "_deterministic _map_func _num_parallel_calls "
    "_preserve_cardinality _use_unbounded_threadpool",
    "filter_op:_FilterDataset": "_predicate",
    "take_while_op:_TakeWhileDataset": "_predicate",
    "flat_map_op:_FlatMapDataset": "_map_func",
    "interleave_op:_InterleaveDataset": "_block_length _cycle_length _map_func",
    "interleave_op:_ParallelInterleaveDataset": "_block_length _cycle_length _map_func "
    "_num_parallel_calls",
    "shuffle_op:_ShuffleDataset": "_buffer_size _reshuffle_each_iteration _seed _seed2",
    "batch_op:_BatchDataset": "_batch_size _drop_remainder",
    "batch_op:_ParallelBatchDataset": "_batch_size _deterministic _drop_remainder "
    "_num_parallel_calls",
    "ragged_batch_op:_DenseToRaggedDataset": "",
    "padded_batch_op:_PaddedBatchDataset": "_batch_size _drop_remainder _padded_shapes "
    "_padding_values",
    "unbatch_op:_UnbatchDataset": "",
    "window_op:_WindowDataset": "_drop_remainder _shift _size _stride",
    "repeat_op:_RepeatDataset": "_count",
    "take_op:_TakeDataset": "_count",
    "skip_op:_SkipDataset": "_count",
    "shard_op:_ShardDataset": "_index _num_shards",
    "cache_op:CacheDataset": "_filename",
    "prefetch_op:_PrefetchDataset": "_buffer_size",
    "dataset_ops:_OptionsDataset": "",
}
# By the name by which the code checks for the feature.
FEATURES: Mapping[str, Feature] = {
    # tf.data
    "data-sets": Feature(
        "a tf.data set that is given cannot be trained on with tfopt; give arrays, or a Keras "
        "PyDataset",
        {
            _DATASET: "_functions _inputs",
            f"{_DATA}.structured_function:StructuredFunctionWrapper": "function",
        },
    ),
    "data-steps": Feature(
        "tf.data sets stay in one piece, so plugins change nothing in them",
        {
            f"{_DATA}.dataset_ops:UnaryDataset": "_input_dataset",
            f"{_DATA}.structured_function:StructuredFunctionWrapper": "_func _input_structure "
            "output_structure",
            "tensorflow.python.data.util.structure": "from_compatible_tensor_list to_tensor_list",
        },
    ),
    "data-kinds": Feature(
        "a tf.data set is not taken apart before a step of a kind that cannot be read, so plugins "
        "change nothing before it",
        {
            **{f"{_DATA}.{owner}": names for owner, names in _STEPS.items()},
            _DATASET: "_as_serialized_graph",
            "tensorflow.python.data.util.nest": "flatten pack_sequence_as",
            "tensorflow.python.framework.tensor:TensorSpec": "_batch",
        },
    ),
    "data-repeats": Feature(
        "a tf.data set that stays in one piece counts as another one each time, so nothing "
        "behind it is cached",
        {
            f"{_DATA}.readers:ParallelInterleaveDataset": "_deterministic",
            "tensorflow.python.data.experimental.ops.cardinality:_AssertCardinalityDataset": "",
            f"{_DATA}.sparse_batch_op:_DenseToSparseBatchDataset": "",
            f"{_DATA}.group_by_window_op:_GroupByWindowDataset": "",
            f"{_DATA}.rebatch_op:_RebatchDataset": "",
            f"{_DATA}.dataset_ops:_RestructuredDataset": "",
            f"{_DATA}.scan_op:_ScanDataset": "",
            f"{_DATA}.unique_op:_UniqueDataset": "",
        },
    ),
    "shuffles-rebuilt": Feature(
        "a tf.data set stays in one piece up to its last shuffle, so plugins change nothing "
        "before that",
        {
            _DATASET: "_common_args _variant_tensor",
            f"{_DATA}.dataset_ops:UnaryUnchangedStructureDataset": "__init__",
            f"{_DATA}.shuffle_op:_ShuffleDataset": "_buffer_size _input_dataset _name "
            "_reshuffle_each_iteration _seed _seed2",
        },
    ),
    "data-sets-of-functions": Feature(
        "where a script gives a shuffled data set to a tf.function, the order of its passes behind "
        "that is another one with plugins that change the data",
        {f"{_DATA}.dataset_ops:DatasetSpec": "_to_components"},
    ),
    "shuffle-orders": Feature(
        "a training that resumes from a checkpoint first reads the data of all epochs "
        "that are done",
        {
            _DATASET: "_inputs",
            f"{_DATA}.shuffle_op:_ShuffleDataset": "_reshuffle_each_iteration _seed _seed2",
        },
    ),
    "random-operations": Feature(
        "which operations are random is not known, so whatever is mapped counts as random: "
        "nothing behind a map is cached or kept",
        {"tensorflow.python.framework.op_def_registry": "get"},
    ),
    # graphs
    "optimized-graphs": Feature(
        "diagnose does not see what the graph optimizer leaves of a step",
        {
            "tensorflow.python.eager.context": "context disable_run_metadata enable_run_metadata "
            "export_run_metadata",
            "tensorflow.python.eager.context:Context": "disable_graph_collection "
            "enable_graph_collection",
        },
    ),
    "profiler-traces": Feature(
        "a profiler's trace is kept, and not read",
        {"tensorflow.tsl.profiler.protobuf.xplane_pb2": "XSpace"},
    ),
    "called-graphs": Feature(
        "diagnose and the notes on checkpoints do not see into functions that a step calls",
        {"tensorflow.python.framework.ops:Graph": "_get_function"},
    ),
    # Keras
    "xla-support": Feature(
        "whether XLA can compile a model is decided by its layers' own flags alone",
        {"keras.src.trainers.trainer": "model_supports_jit"},
    ),
    "xla-choice": Feature(
        'a script\'s model cannot be set back to jit_compile="auto", and the plugin xla does '
        "not say where Keras compiles by itself",
        {"keras.src.trainers.trainer:Trainer": "_resolve_auto_jit_compile"},
    ),
    "nested-layers": Feature(
        "layers within layers are not found, so precision by layer, penalties, padding and "
        "augmentation by layers are refused",
        {"keras.src.layers.layer:Layer": "_flatten_layers"},
    ),
    "layer-names": Feature(
        "layers without a name of their own are named otherwise in each build of a process, "
        "so settings that name them may miss them",
        {"keras.src.backend.common.global_state": "get_global_attribute"},
    ),
    "overflow-count": Feature(
        "the steps that float16 skips since gradients overflowed are not counted",
        {
            "keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer": (
                "_stateful_handle_non_finite_grads"
            )
        },
    ),
    "output-layers": Feature(
        "which layers make the outputs of a functional model is not known, so they compute in "
        "the policy of the others",
        {
            "keras.src.layers.layer:Layer": "_flatten_layers",
            "keras.src.ops.node:Node": "_keras_history",
        },
    ),
    "attention": Feature(
        "what an attention layer computes cannot be replaced, so fused-transformer is not applied",
        {
            "keras.src.layers.attention.multi_head_attention:MultiHeadAttention": (
                "_compute_attention"
            )
        },
    ),
    "output-masks": Feature(
        "whether a model's output has a mask is not known, so split-batch is not applied",
        {"keras.src.backend.common.masking": "get_keras_mask"},
    ),
    "model-cut": Feature(
        "the graph of a model's layers is not cut, so frozen-features and "
        "rematerialize are not applied",
        {
            "keras.src.ops.node:Node": "_keras_history",
            "keras.src.ops.operation:Operation": "_inbound_nodes",
            "keras.src.backend.common.masking": "get_keras_mask",
        },
    ),
    "loss-masks": Feature(
        "whether a loss is taken under a mask is not known, so gradient-accumulation is not "
        "applied",
        {"keras.src.backend.common.masking": "get_keras_mask"},
    ),
    "optimizer-replaced": Feature(
        "a model that lr-schedule has trained names the schedule as its optimizer when it is saved",
        {"keras.src.trainers.trainer:Trainer": "_compile_config"},
    ),
    "optimizer-slots": Feature(
        "optimizers keep Keras' own updates",
        {
            "keras.src.optimizers.base_optimizer:BaseOptimizer": "_get_variable_index "
            "_trainable_variables",
            "keras.src.optimizers.adam:Adam": "_momentums _velocities",
            "keras.src.optimizers.rmsprop:RMSprop": "_velocities",
        },
    ),
    "layer-draws": Feature(
        "random layers of Keras cannot augment data in several threads",
        {"keras.src.layers.layer:Layer": "_seed_generators"},
    ),
    "fit-resumed": Feature(
        "a training with the callback BackupAndRestore cannot resume in another call of fit",
        {"keras.src.trainers.trainer:Trainer": "_initial_epoch"},
    ),
    "output-losses": Feature(
        "with several outputs, a smaller last batch counts less in the logged loss of each output "
        "where XLA compiles many steps, or batches are computed in parts",
        {"keras.src.trainers.trainer:Trainer": "_compile_loss"},
    ),
    "tensorboard": Feature(
        "with the callback TensorBoard only Keras' own loop trains",
        {"keras.src.callbacks.tensorboard:TensorBoard": "_should_trace"},
    ),
    "unknown-counts": Feature(
        "where the number of batches is unknown only Keras' own loop trains",
        {"keras.src.backend.tensorflow.trainer:TensorFlowTrainer": "_get_metrics_result_or_logs"},
    ),
    "class-weights": Feature(
        "class weights are used by Keras' own loop on one device alone",
        {f"{_ADAPTERS}.tf_dataset_adapter": "make_class_weight_map_fn"},
    ),
    "keras-random-state": Feature(
        "the state of Keras' global seed generator is in no checkpoint, and what plugins trace may "
        "draw its seed",
        {
            "keras.src.backend.common.global_state": "get_global_attribute set_global_attribute",
            "keras.src.random.seed_generator": "global_seed_generator",
        },
    ),
    # scripts
    "script-fits": Feature(
        "no stack can be set on the fits of a script",
        {
            _ADAPTERS: "get_data_adapter",
            f"{_ADAPTERS}.array_slicing": "convert_to_sliceable train_validation_split",
            f"{_ADAPTERS}.data_adapter_utils": "unpack_x_y_sample_weight",
            f"{_ADAPTERS}.array_data_adapter": "can_convert_arrays",
            f"{_ADAPTERS}.array_data_adapter:ArrayDataAdapter": "_inputs _num_samples _shuffle",
            f"{_ADAPTERS}.py_dataset_adapter:PyDatasetAdapter": "_standardize_batch",
            "keras.src.tree": "lists_to_tuples",
        },
    ),
    "own-strategy": Feature(
        "a model that was built within a strategy of its own is taken for one without, and "
        "under a strategy of one device a shuffle yields the examples in another order",
        {
            "keras.src.backend.tensorflow.trainer:TensorFlowTrainer": "_distribute_strategy "
            "_symbolic_build"
        },
    ),
    "replicas": Feature(
        "models are trained on one device alone",
        {
            "keras.src.backend.common.variables:Variable": "_value",
            "keras.src.backend.tensorflow.trainer:TensorFlowTrainer": "_distribute_strategy "
            "_symbolic_build",
            "keras.src.layers.layer:Layer": "_flatten_layers _losses",
            "keras.src.losses.loss": "apply_mask reduce_values",
            "keras.src.optimizers.base_optimizer:BaseOptimizer": "_clip_gradients",
            f"{_DISTRIBUTE}.mirrored_strategy:MirroredStrategy": "_collective_key_base",
            f"{_DISTRIBUTE}.parameter_server_strategy_v2:ParameterServerStrategyV2": "_num_workers",
        },
    ),
    "strategies-apart": Feature(
        "one process builds no second strategy, so a stack with one cannot be measured",
        {f"{_DISTRIBUTE}.mirrored_strategy:MirroredStrategy": "_collective_key_base"},
    ),
    "strategies-read-back": Feature(
        "how replicas communicate, and how many servers there are, is not read back",
        {
            f"{_DISTRIBUTE}.collective_all_reduce_strategy:CollectiveAllReduceExtended": ""
            "_communication_options",
            f"{_DISTRIBUTE}.mirrored_strategy:MirroredExtended": "_cross_device_ops",
            f"{_DISTRIBUTE}.parameter_server_strategy_v2:ParameterServerStrategyV2Extended": ""
            "_num_ps _num_workers",
        },
    ),
}
