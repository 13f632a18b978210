"""Measurements that the documentation states. Run one as `python -m benchmarks.NAME`."""
