"""Output of commands: tables for people, JSON for programs."""
