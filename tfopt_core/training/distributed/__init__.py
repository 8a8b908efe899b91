"""Trainings over several replicas and processes, under Keras' own `fit`.

Keras 3 fails under MultiWorkerMirroredStrategy and ParameterServerStrategy, and makes only one
step a call over the replicas of a MirroredStrategy. So the strategy is hidden from Keras: its
`fit` drives the training, and the functions of this package compute the steps over the strategy.
"""
