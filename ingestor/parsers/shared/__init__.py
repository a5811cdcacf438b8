"""Code that parsers of several formats share: content types, decoding, zipped packages and building
documents.
"""
