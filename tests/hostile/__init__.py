"""Damaged and hostile input, each case in a process of its own with little address space and time."""
