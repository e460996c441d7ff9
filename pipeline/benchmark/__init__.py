"""Phase 6: the target with and without the drafter, on prompts that were never trained on.

`decode` is a small speculative decoder on transformers (the reference), `served` measures SGLang;
`figures` adds up and compares, `verdict` says it in words, `report` writes it down.
"""
