"""Vector environments behind one small protocol: Gymnasium, EnvPool, worker processes."""
