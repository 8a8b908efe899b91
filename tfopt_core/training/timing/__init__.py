"""Time the steps of a fit, and wait for the devices that compute them."""
