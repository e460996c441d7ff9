"""Phase 2: the target writes the responses. Split by subject:

- pure: `answers` (what a server said), `stream` (the same in pieces), `judge` (state of a sample),
  `loops`, `policy` (try again, keep or give up), `plan` (budget, caps), `adaptive` (limit of an
  endpoint), `probe` (does it reason?), `flow` (mode), `figures`
- disk: `prompts`, `responses`, `partials` (the crash journal), `retry` (orders), `writer`
- network: `client` (one endpoint), `pool` (all of them)
- `tokens`, `speech` (the target's tokenizer and way of speaking)
- `jobs`, `work` (one dataset), `flight` and `attempts` (one request's life), `enders` (ending it),
  `ledger` (what becomes of it), `report` (events), `runner` (the loop)
"""
