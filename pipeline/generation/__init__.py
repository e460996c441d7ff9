"""Phase 2: the target writes the responses. Split by subject:

- pure: `answers` (what a server said), `judge` (state of a sample), `loops`, `policy` (try again or
  give up), `plan` (budget, caps), `flow` (mode), `figures`
- disk: `prompts`, `responses`, `partials`, `writer`
- network: `client` (one endpoint), `pool` (all of them)
- `jobs`, `work` (one dataset), `attempts` (one request's life), `runner` (the loop)
"""
