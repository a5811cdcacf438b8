"""What holds the simulated world to its laws: one file for each moment at which they must hold."""
