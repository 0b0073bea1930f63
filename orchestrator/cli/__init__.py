"""The krift command, one module for each subcommand."""
