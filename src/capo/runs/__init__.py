"""A run folder and what drives a run: session, checkpoints, resume, sinks, progress."""
