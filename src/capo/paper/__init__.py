"""The paper's tables and figures, from our runs and the published numbers."""
