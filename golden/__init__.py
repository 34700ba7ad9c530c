"""Golden traces: data only, one trace a file.

`published/` holds figures digit for digit as their sources print them; `derived/` holds exact values
with the certificate that they round to the right float64.
"""
