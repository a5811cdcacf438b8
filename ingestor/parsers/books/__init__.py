"""Books in XML: DocBook and FictionBook."""
