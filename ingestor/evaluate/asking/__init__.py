"""What a language model is asked for an evaluation: questions, answers and judgements."""
