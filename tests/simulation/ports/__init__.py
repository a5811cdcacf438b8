"""The ports of the simulated world: each one dies, fails or lies where chance says.

A ``Crash`` is no Exception, so nothing in the program can catch it; afterwards only what is durable is left:
the source, the journal's file and the index. Half of the errors are of kinds that ports name.
"""
