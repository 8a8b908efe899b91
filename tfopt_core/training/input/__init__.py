"""The data of a fit, in what Keras takes and as plans."""
