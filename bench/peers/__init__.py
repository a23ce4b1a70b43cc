"""Measures Penstock beside the systems that its users would pick instead, by turns in one run on one machine."""
