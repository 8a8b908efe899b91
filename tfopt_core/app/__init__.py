"""The use cases behind the commands and the Python API.

The caller passes in an object that shows progress (`app.view.View`); nothing is printed here.
"""
