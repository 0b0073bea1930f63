"""The sim runtime: every node in one process, under virtual time and one seed."""
