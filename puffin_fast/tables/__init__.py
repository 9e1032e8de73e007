"""One handle for the tables of all formats, and the functions of them: each verb once."""
