"""Signal and waste of an update: during training, and as a study of a saved policy."""
