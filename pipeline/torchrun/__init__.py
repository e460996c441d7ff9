"""Several ranks of a phase on this machine, started by torchrun; also by hand, over machines."""
