"""Before any test here: later than the first matrix product of the process it would have no effect."""

from ingestor.embedders.torch_model import avoid_amx

avoid_amx()
