"""Requests to a language model for an evaluation: questions, answers and judgements."""
