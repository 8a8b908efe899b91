"""The use cases behind the commands and the Python API.

The caller passes an object that shows progress (`app.view.View`); nothing here prints.
"""
