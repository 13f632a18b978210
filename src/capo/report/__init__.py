"""Text formats, statistics, plots and web pages."""
