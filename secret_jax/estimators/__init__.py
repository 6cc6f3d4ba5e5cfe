"""Estimators of single trees for scikit-learn: regressor, classifier, presets."""
