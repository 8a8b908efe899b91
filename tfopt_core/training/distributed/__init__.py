"""Trainings over several replicas and processes, under Keras' own `fit`.

Keras 3 fails under MultiWorkerMirroredStrategy and ParameterServerStrategy, and over the replicas
of a MirroredStrategy it makes one step a call only. Here Keras is told of no strategy at all: it
drives, and the functions of this package compute the steps over TensorFlow's strategy.
"""
