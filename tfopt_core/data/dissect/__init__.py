"""Take a given data set apart into stages, through private attributes of tf.data.

Tests assert for the installed TensorFlow that these attributes mean what is read here. Where one is
missing, a data set stays in one piece, as an opaque source. `tfopt_core.private_api` lists them,
and what is lost without each.
"""
