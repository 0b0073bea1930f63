"""The command ``krift`` as an application of Spark's: spark-submit and the Spark operator start a file, not a command.

The arguments are the command's: ``krift_on_spark.py check RUN --engine spark``.
"""

from orchestrator.cli.main import main

if __name__ == "__main__":
    main()
