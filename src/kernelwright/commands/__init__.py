"""The commands that have a file of their own; `cli` joins them with the others."""
