"""Plugins for distribution: strategies over devices, processes, parameter servers and TPUs."""
