"""One module a subcommand: `add_arguments(parser)` and `run(options) -> int`; its docstring is the help."""
