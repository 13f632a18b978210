"""Gymnasium environments in several worker processes."""
