"""Learners of the literature: CART, GUIDE, M5, PHD, RETIS, SUPPORT."""
