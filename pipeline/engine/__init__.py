"""The embedded engine: the part of SGLang's HTTP surface that this project uses, on transformers.

It exists so that the demo, a laptop and the test suite need neither a GPU nor an SGLang install.
It is made for small models: one process, one device, no tensor parallelism, no prefix cache.
``python -m eagle_tui.pipeline.engine --model DIR --port P`` serves it; the answers keep the shapes
of SGLang 0.5.23, and one conformance suite (``tests/conformance``) holds both to them.

Who does what, in the order a request passes through:

==============  ==================================================================================
``app``         starlette routes, key check, streaming, disconnects; runs in the event loop
``requests``    a JSON body becomes validated ``Prompt`` objects, or a ``Refusal``
``sampling``    the ``sampling_params`` object and its error messages
``service``     lives between the two threads: live request ids, the pause gate, deliveries
``engine``      the model thread: inbox, pause modes, step loop
``scheduler``   pure bookkeeping: queue, token pool, admission, retraction, finish reasons
``runner``      the model: batched prefill and decode over ``kvcache`` rows (``attention``)
``sampler``     next token of every row at once
``detokenizer`` text of a growing token list, never half a character
``stats``       counters and snapshots; ``metrics`` and ``info`` turn them into answers
==============  ==================================================================================
"""

#: The SGLang release whose answers the engine imitates; reported as ``version``.
SGLANG_VERSION = "0.5.23"
