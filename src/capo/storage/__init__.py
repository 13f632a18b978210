"""Files, locks, tensors, spaces and provenance: atomic writes, and no code on load."""
