"""The paper's tables and figures: the runs each needs, its published numbers, how it is shown."""
