"""How a drafter is trained: data order, steps, ranks, checkpoints, validation.

`sources` are the places where the target's states come from: shards, the target itself (`teacher`),
or a window of shards (`rolling`, a `feed`); `rows` chooses by what phase 4 has left.
"""
