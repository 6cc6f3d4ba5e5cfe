"""The literature's learners: CART, GUIDE, M5, PHD, RETIS, SUPPORT."""
