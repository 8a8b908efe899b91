"""The training loops: of Keras, chunked and resident, and the switch from one to another."""
