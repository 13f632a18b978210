"""Helpers of the tests: probe environments, made-up runs, fault injection, a browser."""
