"""Language models behind servers with OpenAI's API, and requests to such servers."""
