"""The controller: registers brokers, elects partition leaders and propagates metadata."""
