"""The scenario language: YAML read into typed models, with errors that name file and line."""
