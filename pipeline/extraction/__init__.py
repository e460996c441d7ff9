"""Phase 4: run the target once over every training row and keep its hidden states.

`plan` decides what is to be done and `disk` whether there is room, `target` and `served` are the
two ways to get states, `writer` puts them on disk beside the computation, `team` lets several ranks
share the work, `job` is the loop, `lead` what the first rank does besides.
"""
