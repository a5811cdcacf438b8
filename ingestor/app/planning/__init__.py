"""What a plan counts, and what a sample of documents says of all of them."""
