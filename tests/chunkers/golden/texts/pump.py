"""Runs the pumps of a small greenhouse."""

import time
from dataclasses import dataclass

LITRES_PER_SECOND = 0.12
NAMES = ("basil", "lettuce", "strawberry")


# A reading is never changed once it is taken.
@dataclass(frozen=True)
class Reading:
    acidity: float
    conductivity: float
    taken: float


def mean(values):
    """The arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


class Pump:
    """One pump, and how long it has run."""

    def __init__(self, name, relay):
        self.name = name
        self.relay = relay
        self.seconds = 0.0

    # Blocks until the dose is given.
    def give(self, litres):
        """Run until that much has flowed."""
        wanted = litres / LITRES_PER_SECOND
        started = time.monotonic()
        self.relay.on()
        try:
            while time.monotonic() - started < wanted:
                time.sleep(0.01)
        finally:
            self.relay.off()
        self.seconds += time.monotonic() - started

    @property
    def litres(self):
        return self.seconds * LITRES_PER_SECOND


class Controller:
    """Keeps every tank between its limits."""

    def __init__(self, pumps, sensors, limits):
        self.pumps = pumps
        self.sensors = sensors
        self.limits = limits
        self.history = []

    def step(self):
        for name, pump in self.pumps.items():
            reading = self.sensors[name].read()
            self.history.append((name, reading))
            low, high = self.limits[name]
            if reading.conductivity < low:
                pump.give(0.05)
            elif reading.conductivity > high:
                print(f"{name} is too strong: {reading.conductivity:.2f} mS/cm, more than {high:.2f}")
            if reading.acidity > 7.0:
                print(f"{name} is alkaline: pH {reading.acidity:.1f}")
                print("iron drops out above pH 7; add acid, a little at a time, and wait an hour")
            elif reading.acidity < 5.0:
                print(f"{name} is acid: pH {reading.acidity:.1f}")
                print("below pH 5 roots are harmed; add base, a little at a time, and wait an hour")

    def summary(self):
        return {
            name: mean([reading.conductivity for other, reading in self.history if other == name])
            for name in self.pumps
        }


if __name__ == "__main__":
    print(NAMES)
