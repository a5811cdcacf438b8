"""Code that parsers of several formats share, such as content types, decoding and building documents."""
