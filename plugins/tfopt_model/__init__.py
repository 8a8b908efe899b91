"""Plugins that change the model: penalties, dropped weights, other backbones and heads."""
