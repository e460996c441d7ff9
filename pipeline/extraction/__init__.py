"""Phase 4: run the target once over every training row and keep its hidden states.

`plan` decides what is to be done, `target` and `sglang` are the two ways to get states, `writer`
puts them on disk beside the computation, `team` lets several ranks share the work, `job` is the
loop, `launch` starts the ranks.
"""
