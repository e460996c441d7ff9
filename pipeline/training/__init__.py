"""How a drafter is trained: data order, steps, ranks, checkpoints, validation."""
