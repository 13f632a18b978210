"""Many runs: what is varied, how runs are started, what is left of them, tables and figures."""
