"""What notebooks and reports show: HTML tables and charts."""
