"""The EAGLE-3 draft model: forward pass, training-time test, loss, files. No phase logic."""
