"""HTTP as the connectors ask it: addresses judged, answers bounded."""
