"""Texts, figures and charts of the pages: pure, but for the templates."""
