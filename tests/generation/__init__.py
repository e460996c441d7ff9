"""Tests of phase 2, with a scripted server (`fake_server`) and small run directories (`world`)."""
