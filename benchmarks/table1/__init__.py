"""Table 1 of Dobra & Gehrke 2002, by its own protocol and beside its figures."""
