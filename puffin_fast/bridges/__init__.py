"""Tables of one format that are registered in another, over the same data files."""
